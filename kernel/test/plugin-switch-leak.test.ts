import t from 'tap'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { definePlugin, defineService } from '../index.js'
import { startPlugin, type Rig } from '../testing/index.js'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const ROUNDS = 50
/** Number of switches to run before the first measurement, while V8 still compiles code and fills caches. */
const WARM = 30
const base = { version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.' } as const
const anything = { type: 'object' } as const
const EchoService = defineService<object>('guest.echo')
const stays = definePlugin({ ...base, name: 'stays' }, () => ({}))

/** The context of every start of the guest plugin; contexts of stopped plugins must be collectable. */
const starts: WeakRef<object>[] = []
const guest = definePlugin({
  ...base, name: 'guest',
  provides: { echo: EchoService },
  commands: { note: { summary: 's', args: anything } },
  sections: {
    guestBook: { writer: 'node', summary: 's', value: anything },
    guestList: { writer: 'master', summary: 's', value: anything }
  },
  state: { guests: 'Who is there.' },
  conflicts: { guest_tired: { severity: 'warn', meaning: 'Tired.', remediation: 'Sleep.' } },
  events: { GuestCame: { plane: 'durable', summary: 's', payload: anything } },
  capabilities: {
    greet: {
      id: 'guest.greet', version: '1.0.0', title: 'Greet', description: 'Greets.', annotations: {},
      io_mode: 'unary', input_schema: anything, output_schema: anything
    }
  },
  routes: { look: { method: 'GET', url: '/guest', summary: 's', authority: 'read', query: anything } }
}, (ctx) => {
  starts.push(new WeakRef(ctx))
  ctx.on('GuestCame', () => { ctx.clear('guest_tired') })
  ctx.every('turn in bed', 1000, () => { ctx.raise('guest_tired', '') })
  ctx.readiness('guest', () => ({ ok: ctx.config !== null, detail: 'here' }))
  ctx.sections.guestList.observe(() => { ctx.raise('guest_tired', '') })
  return {
    services: { echo: ctx },
    commands: { note: () => ({ of: ctx.node.nodeId }) },
    state: { guests: () => [ctx.node.nodeId] },
    invoke: { greet: async () => ({ of: ctx.node.nodeId }) },
    routes: { look: () => ({ of: ctx.node.nodeId }) }
  }
})

const heap = (): number => {
  collect()
  collect()
  return process.memoryUsage().heapUsed
}

/** Counts everything outside the heap that a switch could leak. */
function held (rig: Rig): object {
  const { server } = rig.app
  const count = (of: typeof server | typeof process): object => Object.fromEntries(
    of.eventNames().map((name) => [String(name), of.listenerCount(name as 'close')]))
  const handles = process.getActiveResourcesInfo().filter((name) => /Wrap$|^Timeout$/.test(name)).sort()
  return { server: count(server), process: count(process), handles }
}

t.test('a plugin that is switched fifty times leaves nothing behind', async (t) => {
  const warnings: Error[] = []
  const warned = (warning: Error): void => { warnings.push(warning) }
  process.on('warning', warned)
  const rig = await startPlugin(t, stays, { off: [guest] })
  await rig.listen()
  const turn = async (enabled: boolean): Promise<void> => {
    // Makes no assertions here, since tap stores each assertion and would spoil the measurement.
    const { body } = await rig.inject({ method: 'POST', url: '/v1/plugins/guest', payload: { enabled } })
    const { statusCode } = await rig.inject({ url: '/guest' })
    if (statusCode !== (enabled ? 200 : 404)) throw new Error(`${statusCode} after ${body}`)
  }
  const rounds = async (many: number): Promise<void> => {
    for (let i = 0; i < many; i++) { await turn(true); await turn(false) }
    rig.events.length = 0
    rig.logged.length = 0
    await new Promise((resolve) => setImmediate(resolve))
  }
  await rounds(WARM)
  const [before, bytes] = [held(rig), heap()]
  await rounds(ROUNDS)
  t.same(held(rig), before)
  const grown = (heap() - bytes) / ROUNDS
  t.ok(grown < 16_384, `${Math.round(grown)} bytes more for each switch on and off`)
  t.equal(starts.length, WARM + ROUNDS)
  const alive = starts.filter((one) => one.deref() !== undefined).length
  t.ok(alive <= 1, `${alive} contexts of stopped plugins are still held`)
  process.off('warning', warned)
  t.same(warnings, [])
})
