// A server's diet, without the network: requests with bodies in buffers, parsed, answered, dropped.
'use strict';
const waves = Number(process.argv[2]);
let kept = [];
let bytes = 0;
for (let wave = 0; wave < waves; ++wave) {
  const requests = [];
  for (let i = 0; i < 40; ++i) {
    const items = Array.from({length: 30 + (wave * i) % 400}, (_, k) => ({id: k, name: 'item ' + k * wave}));
    const body = Buffer.from(JSON.stringify({wave, items, padding: 'x'.repeat((i * 977) % 60000)}));
    requests.push(Buffer.concat([Buffer.alloc(64, i), body]));
  }
  for (const request of requests) {
    const parsed = JSON.parse(request.subarray(64).toString());
    bytes += parsed.items.length;
  }
  // Sessions: some buffers live longer.
  kept = kept.filter((_, i) => (i + wave) % 5 !== 0).concat(requests.slice(0, 4));
}
console.log(bytes, kept.length);
