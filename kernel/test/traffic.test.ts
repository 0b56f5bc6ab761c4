import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { definePlugin, InvocationService, TrafficService } from '../index.js'
import { startPlugin } from '../testing/index.js'
import { createTraffic } from '../calls/traffic.js'
import type { CallOutcome } from '../index.js'

const plugin = definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.',
  consumes: { invocations: InvocationService },
  routes: {
    fails: { method: 'GET', url: '/fails', authority: 'read', summary: 'Fails.' },
    served: {
      method: 'POST', url: '/served', authority: 'invoke', summary: 'Streams.', stream: true,
      body: { type: 'object' }
    }
  },
  capabilities: {
    twice: {
      id: 'twice', version: '1.0.0', title: 'Twice', description: 'Doubles.', io_mode: 'unary',
      input_schema: { type: 'object' }, output_schema: { type: 'object' }, annotations: {}
    }
  }
}, (ctx) => ({
  invoke: { twice: async () => ({ twice: 2 }) },
  routes: {
    fails: () => { throw new Error('no') },
    served: async (request) => {
      await ctx.deps.invocations.serve(request, {
        as: 'twice@1.0.0', contentType: 'text/plain', frame: () => 'x',
        async * handler () { yield { payload: {} } }
      })
    }
  }
}))

t.test('every answer is told with the plugin of its route, every call with its wait', async (t) => {
  const rig = await startPlugin(t, plugin, { strict: false })
  const traffic = rig.service(TrafficService)
  const answers: [string | undefined, number][] = []
  const calls: CallOutcome[] = []
  const stops = [
    traffic.onAnswer((...told) => { answers.push(told) }), traffic.onCall((told) => { calls.push(told) })
  ]
  t.same(traffic.queues(), [])
  const ask = async (method: string, url: string, payload?: object): Promise<number> =>
    (await rig.inject({ method, url, ...(payload === undefined ? {} : { payload }) })).statusCode
  t.equal(await ask('GET', '/healthz'), 200)
  t.equal(await ask('GET', '/fails'), 500)
  t.equal(await ask('GET', '/nowhere'), 404)
  t.equal(await ask('GET', '/fails?what=1'), 400)
  t.equal(await ask('POST', '/served', {}), 200)
  t.same(answers, [['kernel', 200], ['probe', 500], [undefined, 404], ['probe', 400], ['probe', 200]])
  // Newer versions of Node end the answer before the call is told.
  while (calls.length === 0) await turn()
  t.match(calls, [{ capability: 'twice@1.0.0', kind: 'completed', queuedSeconds: 0, seconds: 0 }])
  t.same(traffic.queues(), [{ capability: 'twice@1.0.0', running: 0, waiting: 0 }])
  for (const stop of stops) stop()
  await ask('GET', '/healthz')
  t.equal(answers.length, 5, 'until they stop listening')
})

t.test('a streamed answer that its reader leaves counts as cut off', async (t) => {
  const endless = definePlugin({
    name: 'endless', version: '1.0.0', kernel: '^1.0.0', summary: 'Never ends.',
    routes: { flow: { method: 'GET', url: '/flow', authority: 'read', summary: 'Flows.', stream: true } }
  }, () => ({
    routes: {
      flow: async (request) => {
        const stream = request.open({ contentType: 'text/plain' })
        while (!stream.closed) {
          await stream.write('x')
          await turn()
        }
      }
    }
  }))
  const rig = await startPlugin(t, endless)
  const answers: [string | undefined, number][] = []
  rig.service(TrafficService).onAnswer((...told) => { answers.push(told) })
  const leave = new AbortController()
  const answer = await fetch(`${await rig.listen()}/flow`, { signal: leave.signal })
  t.equal(answer.status, 200)
  leave.abort()
  while (answers.length === 0) await turn()
  t.same(answers, [['endless', 499]])
})

t.test('a call that got no place has not waited for one', async (t) => {
  let open = (): void => {}
  const held = new Promise<void>((resolve) => { open = resolve })
  const slow = definePlugin({ ...plugin.manifest, routes: {}, consumes: {} } as never, () => ({
    invoke: { twice: async () => { await held; return { twice: 2 } } }
  }) as never)
  const rig = await startPlugin(t, slow, { callLimits: { concurrency: 1, queue: 0 } })
  const traffic = rig.service(TrafficService)
  const calls: CallOutcome[] = []
  traffic.onCall((told) => { calls.push(told) })
  const { revisions } = (await rig.inject({ url: '/v1/capabilities' })).json() as {
    revisions: Record<string, string>
  }
  const payload = {
    capability_id: 'twice', version: '1.0.0', descriptor_revision: revisions['twice@1.0.0'], payload: {}
  }
  const call = async (): Promise<number> =>
    (await rig.inject({ method: 'POST', url: '/v1/capabilities/call', payload })).statusCode
  const first = call()
  while (traffic.queues()[0]?.running !== 1) await turn()
  t.equal(await call(), 429)
  open()
  t.equal(await first, 200)
  t.match(calls, [
    { kind: 'failed', reason: 'overloaded', queuedSeconds: null }, { kind: 'completed', queuedSeconds: 0 }
  ])
})

t.test('without listeners telling does nothing', (t) => {
  const desk = createTraffic(() => [])
  desk.answered('x', 200)
  desk.ended({} as CallOutcome)
  t.same(desk.queues(), [])
  t.end()
})
