package lanceflight.spark;

/** Views of a catalog: Spark 4.1 plans no statements about those of others, and reads them as tables. */
interface Views {}
