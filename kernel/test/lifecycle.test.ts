import t from 'tap'
import { definePlugin, defineService, type Context, type Manifest, type Section } from '../index.js'
import { fake, startPlugin } from '../testing/index.js'

const base = { name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.' } as const
const get = (url: string) => ({ method: 'GET', url, summary: 's', authority: 'read' }) as const
const oneNumber = { type: 'object', required: ['n'], properties: { n: { type: 'integer' } } } as const
const oneNumberOnly = { ...oneNumber, additionalProperties: false } as const

t.test('effects are undone in reverse order, also when one fails', async (t) => {
  const undone: string[] = []
  const rig = await startPlugin(t, definePlugin(base, (ctx) => {
    ctx.effect('first', () => { undone.push('first') })
    ctx.effect('broken', () => { throw new Error('no') })
    ctx.effect('last', () => { undone.push('last') })
    return {}
  }))
  await rig.stop()
  t.same(undone, ['last', 'first'])
  t.match(rig.logged, [{ level: 'error', message: 'could not undo an effect', fields: { effect: 'broken' } }])
})

t.test('timers and listeners end with the plugin', async (t) => {
  let ticks = 0
  const rig = await startPlugin(t, definePlugin({
    ...base,
    events: { Ping: { plane: 'telemetry', summary: 's', payload: { type: 'object' } } }
  }, (ctx) => {
    ctx.every('tick', 100, () => { ticks++; if (ticks === 2) throw new Error('once') })
    ctx.on('Ping', () => { ticks += 10 })
    ctx.emit('Ping', {})
    return {}
  }))
  t.equal(ticks, 10)
  await rig.clock.advance(350)
  t.equal(ticks, 13, 'a tick that throws does not end the timer')
  await rig.stop()
  await rig.clock.advance(1000)
  t.equal(ticks, 13)
})

const failures: [string, Manifest, (ctx: Context<never>) => unknown, RegExp][] = [
  ['start throws', base, () => { throw new Error('no disk') }, /plugin "probe" failed to start: no disk/],
  ['a declared route without handler', { ...base, routes: { a: get('/a') } }, () => ({ routes: {} }),
    /returned nothing for the declared route "a"/],
  ['a handler nobody declared', base, () => ({ routes: { a: () => 1 } }),
    /"a", which the manifest does not declare/],
  ['a declared service not given', { ...base, provides: { s: defineService('s') } }, () => ({}),
    /nothing for the declared service "s"/]
]
for (const [title, manifest, start, message] of failures) {
  t.test(title, async (t) => {
    await t.rejects(startPlugin(t, { manifest, start }), { name: 'BootError', message })
  })
}

t.test('a start that takes too long ends the boot', async (t) => {
  const late = { manifest: base, start: () => new Promise(() => {}) }
  await t.rejects(startPlugin(t, late, { startLimitMs: 100 }), {
    name: 'BootError', message: /start\(\) took over 0\.1 seconds; move slow work into the background/
  })
})

t.test('a handler that throws is a 500 without a word of the cause', async (t) => {
  const rig = await startPlugin(t, definePlugin({ ...base, routes: { a: get('/a'), b: get('/b') } }, () => ({
    routes: {
      a: () => { throw new Error('secret path /etc') },
      b: async () => { throw new TypeError('secret') }
    }
  })))
  for (const url of ['/a', '/b']) {
    const answer = await rig.inject({ url })
    t.equal(answer.statusCode, 500)
    t.match(answer.json(), {
      error: { reason: 'internal', code: 500, type: 'Internal Server Error', retryable: false }
    })
    t.notMatch(answer.body, /secret/)
  }
  t.equal(rig.logged.filter((l) => l.message === 'a route handler failed').length, 2)
})

t.test('errors, events, conflicts and state views of a plugin', async (t) => {
  const Other = defineService<{ count (): number, more (): void }>('other')
  const plugin = definePlugin({
    ...base,
    consumes: { other: Other },
    errors: { too_odd: { status: 422, retryable: true, message: 'Odd.', remedy: 'Be even.' } },
    conflicts: {
      odd_machine: { severity: 'warn', meaning: 'The machine is odd.', remediation: 'Get another.' }
    },
    events: { Seen: { plane: 'durable', summary: 's', payload: oneNumberOnly } },
    state: { probes: 'Probes.' },
    routes: {
      go: { ...get('/go'), reply: oneNumber },
      odd: { ...get('/odd'), errors: ['too_odd'] },
      wrong: { ...get('/wrong'), reply: { type: 'string' } }
    }
  }, (ctx) => {
    ctx.raise('odd_machine', 'Seen 3, declared 2.')
    return {
      state: { probes: () => ({ n: ctx.deps.other.count() }) },
      routes: {
        go: () => { ctx.emit('Seen', { n: 1 }); return { n: 1 } },
        odd: () => { throw ctx.error('too_odd', 'Seven is odd.', { n: 7 }) },
        wrong: () => ({ not: 'a string' })
      }
    }
  })
  const rig = await startPlugin(t, plugin, { fakes: [fake(Other, { count: () => 4 })] })
  t.same((await rig.inject({ url: '/go' })).json(), { n: 1 })
  t.same(rig.events, [{ kind: 'Seen', payload: { n: 1 } }])
  const odd = await rig.inject({ url: '/odd' })
  t.equal(odd.statusCode, 422)
  t.match(odd.json(), {
    detail: 'Seven is odd.',
    error: { reason: 'too_odd', retryable: true, details: { n: 7, remedy: 'Be even.' } }
  })
  t.equal((await rig.inject({ url: '/wrong' })).statusCode, 500, 'tests refuse an answer off its schema')
  const state = (await rig.inject({ url: '/state' })).json() as Record<string, Record<string, unknown>>
  t.same(state['probes'], { n: 4 })
  t.match(Object.values(state['nodeHealth']!)[0], {
    level: 'warn',
    reasons: [{
      code: 'odd_machine',
      severity: 'warn',
      message: 'The machine is odd. Seen 3, declared 2.',
      remediation: 'Get another.'
    }]
  })
  t.same(state['node_identities'], state['nodeIdentities'])
})

t.test('a fake says what it lacks', (t) => {
  const Other = defineService<{ count (): number }>('other')
  t.throws(() => { (fake(Other, {}).instance as { count (): number }).count() },
    /the fake of "other" has no "count"/)
  t.end()
})

t.test('sections: typed, checked, observed, one writer', async (t) => {
  let seen = 0
  let section: Section<{ n: number }> | undefined
  const rig = await startPlugin(t, definePlugin({
    ...base,
    sections: { facts: { writer: 'node', summary: 's', value: oneNumberOnly } },
    state: { facts: 'Facts.' }
  }, (ctx) => {
    const { facts } = ctx.sections
    section = facts
    facts.observe(() => { seen++ })
    const all = (): object => Object.fromEntries([...facts.entries()].map((e) => [e.key, e.value]))
    return { state: { facts: all } }
  }))
  section!.put('a', { n: 1 })
  section!.put('b', { n: 2 })
  section!.remove('a')
  t.throws(() => { section!.get('b')!.n = 3 }, TypeError, 'what is read cannot be changed')
  t.equal(seen, 0, 'not within the change')
  await Promise.resolve()
  t.equal(seen, 1, 'once for the burst')
  t.throws(() => { section!.put('c', { n: 'x' } as never) }, /section "facts", key "c": n must be integer/)
  t.same((await rig.inject({ url: '/state' })).json()['facts'], { b: { n: 2 } })
})
