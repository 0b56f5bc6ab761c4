import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { definePlugin } from '../../../kernel/index.js'
import { startPlugin } from '../../../kernel/testing/index.js'
import { CallsService, InvocationService, type CallOutcome } from '../service.js'

const plugin = definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.',
  consumes: { invocations: InvocationService },
  routes: {
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
    served: async (request) => {
      await ctx.deps.invocations.serve(request, {
        as: 'twice@1.0.0', contentType: 'text/plain', frame: () => 'x',
        async * handler () { yield { payload: {} } }
      })
    }
  }
}))

t.test('every call is told with its wait', async (t) => {
  const rig = await startPlugin(t, plugin)
  const service = rig.service(CallsService)
  const calls: CallOutcome[] = []
  const stop = service.onEnd((told) => { calls.push(told) })
  t.same(service.queues(), [])
  const serve = async (): Promise<number> =>
    (await rig.inject({ method: 'POST', url: '/served', payload: {} })).statusCode
  t.equal(await serve(), 200)
  // In newer versions of Node, the response ends before the `onEnd` listeners are called.
  while (calls.length === 0) await turn()
  t.match(calls, [{ capability: 'twice@1.0.0', kind: 'completed', queuedSeconds: 0, seconds: 0 }])
  t.same(service.queues(), [{ capability: 'twice@1.0.0', running: 0, waiting: 0 }])
  stop()
  await serve()
  while (rig.kernel.commands.open > 0) await turn()
  t.equal(calls.length, 1, 'until it stops listening')
})

t.test('a call that got no place has not waited for one', async (t) => {
  let open = (): void => {}
  const held = new Promise<void>((resolve) => { open = resolve })
  const slow = definePlugin({ ...plugin.manifest, routes: {}, consumes: {} } as never, () => ({
    invoke: { twice: async () => { await held; return { twice: 2 } } }
  }) as never)
  const rig = await startPlugin(t, slow, { callLimits: { concurrency: 1, queue: 0 } })
  const service = rig.service(CallsService)
  const calls: CallOutcome[] = []
  service.onEnd((told) => { calls.push(told) })
  const { revisions } = (await rig.inject({ url: '/v1/capabilities' })).json() as {
    revisions: Record<string, string>
  }
  const payload = {
    capability_id: 'twice', version: '1.0.0', descriptor_revision: revisions['twice@1.0.0'], payload: {}
  }
  const call = async (): Promise<number> =>
    (await rig.inject({ method: 'POST', url: '/v1/capabilities/call', payload })).statusCode
  const first = call()
  while (service.queues()[0]?.running !== 1) await turn()
  t.equal(await call(), 429)
  open()
  t.equal(await first, 200)
  t.match(calls, [
    { kind: 'failed', reason: 'overloaded', queuedSeconds: null }, { kind: 'completed', queuedSeconds: 0 }
  ])
})
