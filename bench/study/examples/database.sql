-- A database in memory: filled, indexed, joined, grouped, emptied, and filled again.
CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, article TEXT, price REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < @ROWS@)
  INSERT INTO orders SELECT i, i * 7919 % 5003, 'article ' || (i * 31 % 997), i % 1000 / 10.0 FROM n;
CREATE INDEX by_customer ON orders(customer, price);
CREATE TABLE customers AS SELECT customer AS id, count(*) AS orders, sum(price) AS total
  FROM orders GROUP BY customer;
SELECT count(*), round(sum(o.price), 1) FROM orders o JOIN customers c ON c.id = o.customer
  WHERE c.total > 100 AND o.article LIKE '%7';
SELECT article, count(DISTINCT customer) FROM orders GROUP BY article ORDER BY 2 DESC, 1 LIMIT 3;
DELETE FROM orders WHERE customer % 2 = 0;
VACUUM;
INSERT INTO orders(customer, article, price) SELECT customer, article || ' again', price FROM orders LIMIT @ROWS@ / 4;
SELECT count(*), round(sum(price), 1) FROM orders;
