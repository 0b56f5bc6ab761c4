import t from 'tap'
import { BUSIER_MAX, pick, type Candidate } from '../routing/pick.js'
import {
  HASHES_MAX, INSTANCES_MAX, PIECES_MAX, prefixHashes, PrefixTable, splitHashes
} from '../routing/prefixes.js'

const KEY = '0'.repeat(32)
const user = (content: unknown): object => ({ role: 'user', content })
const tool = (name: string): object =>
  ({ type: 'function', function: { name, description: 'looks', parameters: {} } })
const long = 'a text of some length '.repeat(1000)
const image = (data: string): object =>
  user([{ type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }])

/** Two prompts, the number of pieces of the second, and how many of them are a prefix of both. */
const chains: [string, object, object, number, number][] = [
  ['nothing to hash', { text: 'of a voice' }, { text: 'of a voice' }, 0, 0],
  ['the same message', { messages: [user('a')] }, { messages: [user('a')] }, 1, 1],
  ['the next turn', { messages: [user('a')] },
    { messages: [user('a'), { role: 'assistant', content: 'b' }, user('c')] }, 3, 1],
  ['another role', { messages: [user('a')] }, { messages: [{ role: 'system', content: 'a' }] }, 1, 0],
  ['a moved boundary', { messages: [user('ab'), user('c')] }, { messages: [user('a'), user('bc')] }, 2, 0],
  ['a text in parts', { messages: [image('AAAA')] }, { messages: [image('AAAB')] }, 1, 0],
  ['a tool call', { messages: [{ role: 'assistant', content: null, tool_calls: [{ id: '1' }] }] },
    { messages: [{ role: 'assistant', content: null, tool_calls: [{ id: '2' }] }] }, 1, 0],
  ['the same tools', { tools: [tool('x')], messages: [user('a')] },
    { tools: [tool('x')], messages: [user('b')] }, 2, 1],
  ['other tools', { tools: [tool('x')], messages: [user('a')] },
    { tools: [tool('y')], messages: [user('a')] }, 2, 0],
  ['each KiB of a message', { messages: [user(long.slice(0, 4000))] },
    { messages: [user(`${long.slice(0, 3000)}other`)] }, 3, 2],
  ['a long text by its beginning and end', { messages: [user(long), user('a')] },
    { messages: [user(long), user('a')] }, 10, 10],
  ['a long text with another end', { messages: [user(long)] },
    { messages: [user(`${long}.`), user('a')] }, 10, 8],
  ['a plain prompt that grew', { prompt: long.slice(0, 3000) }, { prompt: long.slice(0, 3500) }, 3, 2],
  ['token ids', { prompt: [1, 2, 3] }, { prompt: Array.from({ length: 9000 }, (_, i) => i) }, 3, 0],
  ['a short plain prompt', { prompt: 'once' }, { prompt: 'once' }, 0, 0],
  ['at most so many', { messages: Array.from({ length: 90 }, () => user(long)) },
    { messages: Array.from({ length: 99 }, () => user(long)) }, PIECES_MAX, PIECES_MAX],
  ['nonsense', { messages: 7, tools: 'x' }, { messages: [null, 7], prompt: null }, 2, 0]
]
for (const [name, before, after, pieces, common] of chains) {
  t.test(`chain: ${name}`, async (t) => {
    const [a, b] = [before, after].map((payload) => prefixHashes(KEY, payload as Record<string, unknown>))
    t.equal(b!.length, pieces)
    t.equal(b!.filter((hash, i) => a![i] === hash).length, common)
    const other = prefixHashes(KEY.replace('0', '1'), after as Record<string, unknown>)
    t.notOk(other.some((hash) => b!.includes(hash)), 'another key')
    t.same(splitHashes(b!.join('')), b)
  })
}

const at = (instanceId: string, load: number, held: number): Candidate => ({
  nodeId: 'n', installId: 'i', instanceId, runnerId: instanceId, own: false, load, held, contextTokens: 0
})
const choices: [string, Candidate[], string[], string][] = [
  ['the longest prefix', [at('a', 0, 2), at('b', 1, 6)], [], 'b'],
  ['of equal ones the least busy', [at('a', 2, 6), at('b', 1, 6)], [], 'b'],
  ['one that is just not too busy', [at('a', BUSIER_MAX, 6), at('b', 0, 0)], [], 'a'],
  ['none that is too busy', [at('a', BUSIER_MAX + 1, 6), at('b', 0, 0), at('c', 1, 2)], [], 'c'],
  ['the least busy if none has anything', [at('a', 1, 0), at('b', 0, 0)], [], 'b'],
  ['not one that was tried', [at('a', 0, 6), at('b', 0, 0)], ['a'], 'b'],
  ['busy as compared with those left', [at('a', 0, 0), at('b', 9, 6), at('c', 9, 0)], ['a'], 'b']
]
for (const [name, candidates, except, expected] of choices) {
  t.test(`choice: ${name}`, async (t) => { t.match(pick(candidates, { except }), { instanceId: expected }) })
}

t.test('an instance is rated by prefix, then by session', async (t) => {
  const table = new PrefixTable()
  const lead = (session: string | undefined, ...texts: string[]) =>
    table.lead({ payload: { messages: texts.map(user) }, session })
  table.remember('a', lead('s', 'one').kept)
  table.remember('b', lead(undefined, 'one', 'two', 'three').kept)
  const rates = (...asked: Parameters<typeof lead>): number[] =>
    ['a', 'b', 'c'].map((id) => table.rate(id, lead(...asked)))
  t.same(rates(undefined, 'one', 'two', 'three', 'four'), [2, 6, 0])
  t.same(rates('s', 'one'), [3, 0, 0])
  t.same(rates('s', 'else'), [1, 0, 0], 'a session leads without its prefix, too')
  t.same(rates('other', 'else'), [0, 0, 0])
  t.same(table.lead({}), { cuts: [], session: undefined, kept: [] })
})

t.test('what is kept and taken from others is bounded; the newest stays', async (t) => {
  const table = new PrefixTable()
  const hashes = Array.from({ length: 200 }, (_, i) => prefixHashes(KEY, { messages: [user(String(i))] })[0]!)
  for (const one of hashes) table.remember('a', [one])
  t.same(table.hashesOf('a'), hashes.slice(-HASHES_MAX))
  table.remember('a', [hashes.at(-HASHES_MAX)!, hashes[0]!])
  t.same(table.hashesOf('a').slice(-2), [hashes.at(-HASHES_MAX), hashes[0]])
  for (let i = 0; i < INSTANCES_MAX; i++) table.remember(`i${i}`, [hashes[0]!])
  t.same([table.hashesOf('a'), table.hashesOf('i0').length], [[], 1])
  t.ok(table.lead({ payload: { messages: Array.from({ length: 99 }, (_, i) => user(i)) }, session: 's' })
    .kept.length <= 5)
  const joined = hashes.slice(0, HASHES_MAX).join('')
  t.equal(splitHashes(joined).length, HASHES_MAX)
  for (const wrong of [joined + hashes[0]!, 'short', '!'.repeat(11), joined.slice(1)]) {
    t.same(splitHashes(wrong), [])
  }
})

t.test('all nodes agree on the lowest key', async (t) => {
  const [a, b] = [new PrefixTable(), new PrefixTable()]
  a.adopt(b.key)
  b.adopt(a.key)
  t.equal(a.key, b.key)
  t.match(a.key, /^[0-9a-f]{32}$/)
})

t.test('a decision takes at most 50 microseconds', async (t) => {
  const table = new PrefixTable()
  const messages = Array.from({ length: 11 }, (_, i) => user(`${i} ${long.slice(0, 160 + i % 2 * 1200)}`))
  const all = Array.from({ length: 8 }, (_, i) => at(String(i), i % 3, 0))
  const times = Array.from({ length: 3000 }, () => {
    const fresh = structuredClone({ messages })
    const start = performance.now()
    const lead = table.lead({ payload: fresh, session: 's' })
    const rated = all.map((one) => ({ ...one, held: table.rate(one.instanceId, lead) }))
    const chosen = pick(rated, {}) as Candidate
    table.remember(chosen.instanceId, lead.kept)
    return (performance.now() - start) * 1000
  }).sort((x, y) => x - y)
  const [p10, p50] = [times[300]!, times[1500]!]
  t.comment(`chat of 6 turns, 8 instances: p10 ${p10.toFixed(1)}, p50 ${p50.toFixed(1)} microseconds`)
  // The fastest tenth, because the machine may be busy.
  t.ok(p10 <= 50)
})
