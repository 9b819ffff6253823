// The header of sessions stands by itself, as C++20.
#include <recoverssm/session.h>

extern "C" int c_api_session_header_in_c(void);

int main() { return c_api_session_header_in_c() == RECOVERSSM_CHECKPOINT_VERSION ? 0 : 1; }
