// The header stands by itself, as C++20.
#include <recoverssm/recoverssm.h>

extern "C" int c_api_header_in_c(void);

int main() { return c_api_header_in_c() == RECOVERSSM_VERSION_NUMBER ? 0 : 1; }
