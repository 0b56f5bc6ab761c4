import t from 'tap'
import { staysUntil, type Swap } from '../instances/shutdown.js'

const swap = (models: string, mono: number): Swap => ({ models: [...models], mono })

const table: [string, Swap[], number][] = [
  ['none', [], 20_000],
  ['two of the pair', [swap('ab', 11_000), swap('ba', 15_000)], 20_000],
  ['three', [swap('ab', 10_000), swap('ba', 14_000), swap('ab', 19_000)], 26_000],
  ['three, one long ago', [swap('ab', -1), swap('ba', 14_000), swap('ab', 19_000)], 20_000],
  ['of two pairs', [swap('ab', 10_000), swap('ac', 14_000), swap('ab', 19_000)], 20_000],
  ['of others', [swap('cd', 10_000), swap('dc', 14_000), swap('cd', 19_000)], 20_000]
]
for (const [name, swaps, until] of table) {
  t.test(`a model of two seconds of loading: ${name}`, async (t) => {
    t.equal(staysUntil(swaps, 'b', { startedAt: 18_000, readyAt: 20_000 }), until)
    t.equal(staysUntil(swaps, 'a', { startedAt: 18_000, readyAt: 20_000 }), until)
  })
}
