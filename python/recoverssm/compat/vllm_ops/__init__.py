"""vLLM's RecoverSSM calls on top of this library: names, argument orders, shapes and error cases are vLLM's, the bits `recoverssm.ops`'.

Sources of the contracts: vLLM's KDA RecoverSSM as released in 0.33.0, and its GDN, PLE and pipeline-parallel forms as proposed there
(#51855, #56121, #58863, #59983, #61017). A malformed call raises InvalidArgument, which is a ValueError, before anything is written;
what only the contents of index tensors show raises OutOfRange.

Where they differ from the originals, on purpose: a record holds the decay itself, not its logarithm; the final column is (n-1)/B; a column beyond
the block table is OutOfRange, not clamped to the last one; dead rows keep running column and count.
"""

from ._commit import CommitStep, GDNRecoverSSMCommitContext, PleConvCommit, commit_groups
from ._gdn import gdn_recoverssm_verify
from ._kda import KDARecoverSSMCommitContext, KDARecoverSSMRecords, kda_recoverssm_verify
from ._rows import recoverssm_request_indices, recoverssm_spec_rows
from ._step import DetachedStep, RecoverSSMMetadata, RecoverSSMPostprocessMetadata, RecoverSSMState

__all__ = [
    "CommitStep",
    "DetachedStep",
    "GDNRecoverSSMCommitContext",
    "KDARecoverSSMCommitContext",
    "KDARecoverSSMRecords",
    "PleConvCommit",
    "RecoverSSMMetadata",
    "RecoverSSMPostprocessMetadata",
    "RecoverSSMState",
    "commit_groups",
    "gdn_recoverssm_verify",
    "kda_recoverssm_verify",
    "recoverssm_request_indices",
    "recoverssm_spec_rows",
]
