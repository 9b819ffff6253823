// Which pending counts and records the plain part of gdn_attention folds: its own, or, where it names neither and the windows are lazy,
// the windows'.
#pragma once

#include "recoverssm/attention.hpp"

namespace recoverssm {

inline bool lazy_windows(const GdnAttentionParams& p) {
  return p.windows && p.windows->mode == WindowMode::verify && p.windows->pending.present();
}

// The plain part names neither pending nor records and takes both from the windows. Only where there is a plain part.
inline bool plain_borrows(const GdnAttentionParams& p) {
  return !p.plain->pending.present() && !p.plain->records.present() && lazy_windows(p);
}

inline const TensorView& plain_pending(const GdnAttentionParams& p) {
  return plain_borrows(p) ? p.windows->pending : p.plain->pending;
}

inline const Records& plain_records(const GdnAttentionParams& p) {
  return plain_borrows(p) ? p.windows->records : p.plain->records;
}

}  // namespace recoverssm
