import t from 'tap'
import type { Section } from '../../../kernel/index.js'
import { commandHandlers, commands } from '../waitlist.js'
import { onceFor } from '../keeper/once.js'
import type { DrainedEntry, StoppedEntry, WaitingEntry } from '../waitlist.js'
import { entry, intent } from './keeper-kit.js'

/** Imitates a document section, as passed to the master's command handlers. */
function section<T> (): Section<T> & { keys (): string[] } {
  const map = new Map<string, T>()
  return {
    put: (key, value) => { map.set(key, value) },
    remove: (key) => { map.delete(key) },
    get: (key) => map.get(key),
    entries: () => [...map].map(([key, value]) => ({ nodeId: 'master', key, value })),
    observe: () => () => {},
    keys: () => [...map.keys()]
  }
}

t.test('each command may be repeated', (t) => {
  const waiting = section<WaitingEntry>()
  const stopped = section<StoppedEntry>()
  const drainedNodes = section<DrainedEntry>()
  const said: string[] = []
  const { wait, note, unwait, stop, unstop, drain, undrain } = commandHandlers({
    waiting, stopped, drainedNodes, policies: section(), replaced: (id) => id === 'placed',
    waits: (id, { reason }) => { said.push(`${id} ${reason}`) }
  })
  const check = (done: { changed: boolean }, changed: boolean): void => { t.strictSame(done, { changed }) }
  check(drain({ installId: 'i', since: '2026-01-01T00:00:00.000Z', by: 'ann' }), true)
  check(drain({ installId: 'i', since: '2026-01-02T00:00:00.000Z', by: 'bob' }), false)
  t.strictSame(drainedNodes.get('i'), { since: '2026-01-01T00:00:00.000Z', by: 'ann' })
  check(undrain({ installId: 'i' }), true)
  check(undrain({ installId: 'i' }), false)
  const auto = entry({ intent: intent({ origin: 'autoplace' }) })
  check(wait({ id: 'a', entry: entry() }), true)
  check(wait({ id: 'a', entry: auto }), false)
  const reason = 'insufficient_memory'
  check(note({ id: 'a', reason, message: 'Too little.' }), true)
  check(note({ id: 'a', reason, message: 'Even less.' }), false)
  check(note({ id: 'none', reason: 'x', message: 'x' }), false)
  check(wait({ id: 'placed', entry: entry() }), false)
  t.strictSame(waiting.get('a'), { ...entry(), reason, message: 'Too little.' })
  check(wait({ id: 'b', entry: auto }), true)
  check(wait({ id: 'c', entry: { ...auto, modelId: 'acme/other' } }), true)
  check(stop({ modelId: 'acme/chat', since: 'now' }), true)
  check(stop({ modelId: 'acme/chat', since: 'later' }), false)
  const left = [waiting.keys(), stopped.keys()]
  t.strictSame(left, [['a', 'c'], ['acme/chat']], 'only what waits by itself ends')
  t.strictSame(stopped.get('acme/chat'), { since: 'now' })
  check(unstop({ modelId: 'acme/chat' }), true)
  check(unstop({ modelId: 'acme/chat' }), false)
  check(unwait({ id: 'a' }), true)
  check(unwait({ id: 'a' }), false)
  t.strictSame(said, ['a node_lost', 'b node_lost', 'c node_lost'])
  t.strictSame(Object.keys(commands).sort(),
    ['drain', 'note', 'policy', 'stop', 'undrain', 'unstop', 'unwait', 'wait'], 'each is declared')
  t.end()
})

t.test('the id of a command that is given once', (t) => {
  t.equal(onceFor('wait', 'a'), onceFor('wait', 'a'))
  t.equal(new Set([onceFor('wait', 'a'), onceFor('wait', 'b'), onceFor('other', 'a')]).size, 3)
  t.match(onceFor('wait', 'a'), /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  t.end()
})
