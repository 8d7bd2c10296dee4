/* A library with memory of its own, to be loaded, registered, unloaded, and loaded again. */
char foreign_plugin_data[64 << 10] = {1};
char foreign_plugin_bss[64 << 10];
