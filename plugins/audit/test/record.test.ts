import { createHash } from 'node:crypto'
import t from 'tap'
import { canonicalJson, GENESIS, hashOf, readRecord, withHash } from '../chain/record.js'
import { fields, linesOf, NODE, records } from './kit.js'

t.test('the vectors of RFC 8785', async (t) => {
  t.equal(canonicalJson(JSON.parse(String.raw`{
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
    "literals": [null, true, false]
  }`)), [
    String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],`,
    String.raw`"string":"€$\u000f\nA'B\"\\\\\"/"}`
  ].join(''), '3.2.2')
  const names = {
    '\u20ac': 'Euro Sign', '\r': 'Carriage Return', '\ufb33': 'Hebrew Letter Dalet With Dagesh',
    '1': 'One', '\ud83d\ude00': 'Emoji: Grinning Face', '\u0080': 'Control',
    '\u00f6': 'Latin Small Letter O With Diaeresis'
  }
  t.same(Object.values(JSON.parse(canonicalJson(names).replace('"1":', '"one":')) as object), [
    'Carriage Return', 'One', 'Control', 'Latin Small Letter O With Diaeresis', 'Euro Sign',
    'Emoji: Grinning Face', 'Hebrew Letter Dalet With Dagesh'
  ], '3.2.3: sorted by UTF-16 code units')
  const numbers: [string, string][] = [
    ['0000000000000000', '0'], ['8000000000000000', '0'], ['0000000000000001', '5e-324'],
    ['8000000000000001', '-5e-324'], ['7fefffffffffffff', '1.7976931348623157e+308'],
    ['ffefffffffffffff', '-1.7976931348623157e+308'], ['4340000000000000', '9007199254740992'],
    ['c340000000000000', '-9007199254740992'], ['4430000000000000', '295147905179352830000'],
    ['44b52d02c7e14af5', '9.999999999999997e+22'], ['44b52d02c7e14af6', '1e+23'],
    ['44b52d02c7e14af7', '1.0000000000000001e+23'], ['444b1ae4d6e2ef4e', '999999999999999700000'],
    ['444b1ae4d6e2ef4f', '999999999999999900000'], ['444b1ae4d6e2ef50', '1e+21'],
    ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'], ['3eb0c6f7a0b5ed8d', '0.000001'],
    ['41b3de4355555553', '333333333.3333332'], ['41b3de4355555554', '333333333.33333325'],
    ['41b3de4355555555', '333333333.3333333'], ['41b3de4355555556', '333333333.3333334'],
    ['41b3de4355555557', '333333333.33333343'], ['becbf647612f3696', '-0.0000033333333333333333'],
    ['43143ff3c1cb0959', '1424953923781206.2']
  ]
  for (const [bits, text] of numbers) {
    t.equal(canonicalJson(Buffer.from(bits, 'hex').readDoubleBE()), text, `appendix B: ${bits}`)
  }
  for (const bad of [NaN, Infinity, undefined, 'a\ud800', { a: undefined }, 1n, () => {}]) {
    t.throws(() => canonicalJson(bad), TypeError)
  }
})

t.test('a record is hashed over everything but its hash', async (t) => {
  const record = withHash({ seq: 1, at: '2026-01-01T00:00:00.000Z', node: NODE, ...fields(), prev: GENESIS })
  const text = `{"at":"2026-01-01T00:00:00.000Z","detail":{},"how":"direct","node":"${NODE}",` +
    `"prev":"${GENESIS}","seq":1,"what":"PUT /config","who":"operator"}`
  t.equal(record.hash, createHash('sha256').update(text).digest('hex'))
  t.equal(hashOf(record), record.hash)
  for (const key of ['seq', 'at', 'node', 'who', 'how', 'what', 'detail', 'prev'] as const) {
    const value = key === 'seq' ? 2 : key === 'detail' ? { a: 1 } : 'x'
    t.not(hashOf({ ...record, [key]: value }), record.hash, key)
  }
})

t.test('only what is written here is read as a record', async (t) => {
  const [record] = records(1)
  const [line] = linesOf([record!])
  t.same(readRecord(line!), record)
  for (const bad of ['', 'null', '[]', '{}', '1', `${line!} `, line!.replace('{', '{ '), line!.slice(1),
    line!.replace('"seq":1', '"seq":0'), line!.replace('"seq":1', '"seq":1.5'), line!.replace('{}', 'null'),
    line!.replace('"what":"PUT /config"', '"what":1'), line!.replace(record!.hash, 'x'),
    // Duplicate keys are invalid, because some parsers use the first and others the last.
    line!.replace('"who":"operator"', '"who":"local","who":"operator"')]) {
    t.equal(readRecord(bad), null, bad.slice(0, 60))
  }
})
