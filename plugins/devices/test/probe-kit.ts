import { definePlugin } from '../../../kernel/index.js'
import { start } from './devices-kit.js'
import type { RequestSigner } from '../signing/signer.js'
import type { Rig } from '../../../kernel/testing/index.js'

export const probe = definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'Says who asks.',
  routes: {
    who: { method: 'GET', url: '/who', summary: 's', authority: 'read', query: { type: 'object' } },
    take: { method: 'POST', url: '/take', summary: 's', authority: 'invoke', body: { type: 'object' } },
    pay: { method: 'POST', url: '/pay', summary: 's', authority: 'approve' },
    run: { method: 'POST', url: '/run', summary: 's', authority: 'operator' },
    follow: { method: 'GET', url: '/follow', summary: 's', authority: 'read', stream: true }
  }
}, () => ({
  routes: {
    who: ({ caller: { id, mode, authorities } }) => ({ id, mode, authorities: [...authorities] }),
    take: ({ body }) => ({ took: body }),
    pay: () => ({}),
    run: () => ({}),
    follow: async (request) => {
      await request.open({ contentType: 'text/event-stream' }).write(': hello\n\n')
      await new Promise(() => {})
    }
  }
}))

/** Starts the plugin with a probe route that returns the caller. */
export const running = async (t: Parameters<typeof start>[0]): Promise<Rig> =>
  await start(t, { plugins: [probe] })

export interface Sent { method?: string, url: string, payload?: string, authorization: string }

export async function send (rig: Rig, { method = 'GET', url, payload, authorization }: Sent) {
  const type = payload === undefined ? {} : { 'content-type': 'application/json' }
  const answer = await rig.inject({
    method, url, headers: { authorization, ...type }, ...payload === undefined ? {} : { payload }
  })
  const body = answer.json() as { error?: { reason: string, details: Record<string, unknown> } }
  return { status: answer.statusCode, reason: body.error?.reason, details: body.error?.details, body }
}

export const sign = async (
  signer: RequestSigner, url: string, method = 'GET', payload?: string
): Promise<Sent> => ({
  method, url, ...payload === undefined ? {} : { payload },
  authorization: await signer.authorization(method, url,
    payload === undefined ? undefined : new TextEncoder().encode(payload))
})
