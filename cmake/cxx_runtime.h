// Included in jemalloc's C++ source when the engine is made from sources: what its operator new
// needs from libstdc++ to throw and catch is not required, but comes from the program, if it has
// it. prepare_engine.sh does the same to a distribution's archive, for which objcopy before
// binutils 2.36 does not serve.
__asm__(
    ".weak _ZSt20__throw_system_errori\n"
    ".weak _ZSt9terminatev\n"
    ".weak _ZTISt9bad_alloc\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak __gxx_personality_v0\n");
