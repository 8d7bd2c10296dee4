/* A shared object that registers memory as it is loaded, by the program's function. */
void constructor_of_plugin(void);

__attribute__((constructor)) static void load(void) { constructor_of_plugin(); }
