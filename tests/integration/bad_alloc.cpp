#include "tests/integration/bad_alloc.h"

int main() { return probe::check_bad_alloc(); }
