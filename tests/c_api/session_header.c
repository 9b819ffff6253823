/* The header of sessions stands by itself, as C11. */
#include <recoverssm/session.h>

int c_api_session_header_in_c(void) { return RECOVERSSM_CHECKPOINT_VERSION; }
