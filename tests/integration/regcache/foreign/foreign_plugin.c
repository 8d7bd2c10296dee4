/* A library with its own data, to be loaded, registered, unloaded, and loaded again. */
char foreign_plugin_data[64 << 10] = {1};
char foreign_plugin_bss[64 << 10];
