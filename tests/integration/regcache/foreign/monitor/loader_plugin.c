/* A shared object whose constructor registers memory, through the program's function. */
void constructor_of_plugin(void);

__attribute__((constructor)) static void load(void) { constructor_of_plugin(); }
