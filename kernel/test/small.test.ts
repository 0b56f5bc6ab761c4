import t from 'tap'
import { createBus } from '../plugins/events.js'
import { createCommands } from '../plugins/commands.js'
import { base32 } from '../net/encoding.js'
import { redact } from '../state/state.js'
import type { Caller } from '../api/plugin.js'

t.test('base32 of RFC 4648', (t) => {
  const rows: [string, string][] = [
    ['', ''], ['f', 'my'], ['fo', 'mzxq'], ['foo', 'mzxw6'],
    ['foob', 'mzxw6yq'], ['fooba', 'mzxw6ytb'], ['foobar', 'mzxw6ytboi']
  ]
  for (const [text, expect] of rows) t.equal(base32(Buffer.from(text)), expect)
  t.end()
})

t.test('events wait until the bus is open, and a failing listener harms nobody', (t) => {
  const errors: string[] = []
  const bus = createBus({ strict: true, onError: (_error, kind) => { errors.push(kind) }, onInvalid () {} })
  const payload = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } }
  bus.declare('a', { Seen: { plane: 'durable', summary: 's', payload } })
  const heard: unknown[] = []
  bus.on('Seen', () => { throw new Error('no') })
  bus.on('*', (event) => { heard.push(event.payload) })
  bus.emit('a', 'Seen', { n: 1 })
  t.same(heard, [])
  bus.open()
  bus.emit('a', 'Seen', { n: 2 })
  t.same(heard, [{ n: 1 }, { n: 2 }])
  t.same(errors, ['Seen', 'Seen'])
  t.equal(bus.durableCount, 2)
  t.throws(() => { bus.emit('b', 'Seen', { n: 1 }) }, /has not declared the event Seen/)
  t.throws(() => { bus.emit('a', 'Seen', {}) }, /n is required/)
  t.end()
})

t.test('an event off its schema is delivered, counted, and told once for its kind', (t) => {
  const told: string[] = []
  const bus = createBus({
    strict: false, onError () {},
    onInvalid: (owner, kind, problem) => { told.push(`${owner} ${kind}: ${problem}`) }
  })
  const payload = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } }
  const decl = { plane: 'durable' as const, summary: 's', payload }
  bus.declare('a', { Seen: decl, Heard: decl })
  bus.open()
  const heard: unknown[] = []
  bus.on('*', (event) => { heard.push(event.payload) })
  bus.emit('a', 'Seen', { n: 'one' })
  bus.emit('a', 'Seen', {})
  bus.emit('a', 'Seen', { n: 1 })
  bus.emit('a', 'Heard', {})
  t.same(heard, [{ n: 'one' }, {}, { n: 1 }, {}])
  t.match(told, [/^a Seen: .*n/, /^a Heard: n is required/])
  t.equal(bus.invalidCount, 3)
  t.end()
})

t.test('commands: cancel your own, or with the authority anybody\'s', (t) => {
  const commands = createCommands(() => () => {})
  const caller = (id: string, ...authorities: string[]): Caller =>
    ({ id, mode: 'direct', authorities: new Set(authorities) })
  const ended: string[] = []
  const done = commands.track({
    commandId: 'c', caller: caller('ann'), abort: (reason) => { ended.push(reason) }
  })
  t.equal(commands.open, 1)
  t.throws(() => commands.cancel('c', caller('bob')), { message: /needs cluster:write/ })
  t.equal(commands.cancel('c', caller('ann')), true)
  t.equal(commands.cancel('c', caller('bob', 'cluster:write')), true)
  commands.abortAll('shutting_down')
  t.same(ended, ['cancelled', 'cancelled', 'shutting_down'])
  done()
  t.equal(commands.cancel('c', caller('ann')), false)
  t.equal(commands.open, 0)
  t.throws(() => commands.track({ commandId: 'd', caller: caller('ann'), abort: () => {} }),
    { reason: 'shutting_down' } as unknown as Error)
  t.equal(commands.open, 0, 'a node that stops takes no command')
  t.end()
})

t.test('state without addresses and paths', (t) => {
  const hidden = {
    names: new Set(['apiUrl', 'directory', 'hostsByNode']), meanings: new Map([['disk_full', 'It is full.']])
  }
  t.same(redact({ apiUrl: 'x', list: [{ directory: '/a', n: 1 }], deep: { hostsByNode: {} } }, hidden),
    { apiUrl: null, list: [{ directory: null, n: 1 }], deep: { hostsByNode: null } })
  const reasons = ['disk_full', 'of_a_stranger'].map((code) =>
    ({ code, message: `/home/ann, ${code}`, remediation: 'Free some.' }))
  t.same(redact({ reasons, message: '/kept' }, hidden), {
    reasons: [{ code: 'disk_full', message: 'It is full.', remediation: 'Free some.' },
      { code: 'of_a_stranger', message: 'of_a_stranger', remediation: 'Free some.' }], message: '/kept'
  })
  t.end()
})
