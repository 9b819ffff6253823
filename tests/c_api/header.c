/* The header stands by itself, as C11. */
#include <recoverssm/recoverssm.h>

int c_api_header_in_c(void) { return RECOVERSSM_VERSION_NUMBER; }
