/** Keys and values in the memory that a model takes. */
import t from 'tap'
import { cacheOf, needOf } from '../api/memory.js'

const MIB = 2 ** 20
const shape = { nLayers: 32, kvHeads: 8, headSize: 128, valueBytes: 2, contextLength: 8192 }

t.test('layers that differ, and states that do not grow', async (t) => {
  const hybrid = { ...shape, cacheTokenBytes: 4096, stateBytes: 1000 }
  t.equal(cacheOf(hybrid, 2048).contextBytes, 4096 * 2048 + 1000)
  t.equal(cacheOf({ ...shape, stateBytes: 1000 }, 1024).contextBytes, 128 * MIB + 1000)
  t.equal(cacheOf({ ...shape, kvHeads: 0 }).bytes, 0, 'an encoder keeps nothing')
})

t.test('a drafter keeps keys and values of its own, for the same context', async (t) => {
  const drafter = { nLayers: 4, kvHeads: 4, headSize: 64 }
  t.equal(cacheOf(shape, 4096).bytes, 512 * MIB)
  const both = cacheOf({ ...shape, drafter }, 4096)
  t.equal(both.contextBytes, (512 + 16) * MIB)
  t.equal(both.contexts, 1)
  const [alone, drafted] = [shape, { ...shape, drafter }].map((card) =>
    needOf({ ...card, totalBytes: 0 }, {}, { context: 4096 }).neededBytes)
  t.equal(drafted! - alone!, 16 * MIB)
})
