/* Memory that dlclose() unmaps. */
char room[1 << 20];
