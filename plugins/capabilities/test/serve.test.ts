/** Tests plugin routes that answer as a capability call would, with their error formats. */
import t from 'tap'
import { definePlugin, kernelError, type CapabilityChunk, type RouteRequest } from '../../../kernel/index.js'
import { startPlugin } from '../../../kernel/testing/index.js'
import { InvocationService } from '../service.js'
import { declaration } from './kit.js'

const route = { method: 'POST', summary: 's', authority: 'invoke', stream: true } as const
const body = {
  type: 'object',
  properties: { fails: { type: 'boolean' }, texts: { type: 'array', items: { type: 'string' } } }
} as const

async function * says ({ body }: RouteRequest): AsyncGenerator<CapabilityChunk<{ text: string }>> {
  const { texts = [], fails } = body as { texts?: string[], fails?: boolean }
  for (const text of texts) yield { payload: { text } }
  if (fails === true) throw kernelError('no_instance', 'Nothing there.')
}

const probe = definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.',
  consumes: { invocations: InvocationService },
  capabilities: { unary: { ...declaration('unary'), io_mode: 'unary', calls_at_once: 2 } },
  routes: {
    foreign: {
      ...route, url: '/foreign', body,
      failure: ({ error }) => ({ oops: error.message, reason: error.reason })
    },
    plain: { ...route, url: '/plain', body }
  }
}, (ctx) => {
  const serve = async (request: unknown): Promise<void> => {
    await ctx.deps.invocations.serve(request as RouteRequest, {
      as: 'probe-unary@1.0.0',
      contentType: 'text/plain',
      frame: ({ kind, payload }) =>
        kind === 'chunk' ? `[${(payload as { text: string }).text}]` : `(${kind})`,
      handler: () => says(request as RouteRequest)
    })
  }
  return { invoke: { unary: async () => ({ sum: 1 }) }, routes: { foreign: serve, plain: serve } }
})

t.test('a route in the place of a capability', async (t) => {
  const { inject } = await startPlugin(t, probe)
  const ask = async (url: string, payload: object) => await inject({ method: 'POST', url, payload })
  const said = await ask('/foreign', { texts: ['a', '', 'b'] })
  t.equal(said.statusCode, 200)
  t.equal(said.body, '(started)[a][][b](completed)')
  const early = await ask('/foreign', { fails: true })
  t.equal(early.statusCode, 404)
  t.match(early.json(), { oops: 'Nothing there.', reason: 'no_instance' })
  t.ok(early.headers['x-svc-command-id'])
  t.equal((await ask('/foreign', { texts: ['a'], fails: true })).body, '(started)[a](failed)')
  t.equal((await ask('/plain', { fails: true })).statusCode, 404)
})

t.test('errors in the words of a foreign API, whoever found them', async (t) => {
  const { inject } = await startPlugin(t, probe, { allow: ['read'] })
  const ask = async (url: string, payload: object) =>
    (await inject({ method: 'POST', url, payload })).json() as object
  t.match(await ask('/foreign', {}), { oops: String, reason: 'unauthenticated' })
  t.match(await ask('/plain', {}), { error: { reason: 'unauthenticated' } })
  const open = await startPlugin(t, probe)
  const wrong = await open.inject({ method: 'POST', url: '/foreign', payload: { texts: 'a' } })
  t.equal(wrong.statusCode, 400)
  t.match(wrong.json(), { oops: /texts/, reason: 'invalid_request' })
  t.match((await open.inject({ url: '/nothing' })).json(), { error: { reason: 'not_found' } })
})
