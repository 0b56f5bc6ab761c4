import t from 'tap'
import { getEventListeners, once } from 'node:events'
import { definePlugin, OwnApiService, type Caller, type LocalApi } from '../index.js'
import { startPlugin } from '../testing/index.js'

const caller: Caller = { id: 'probe', mode: 'direct', authorities: new Set(['read']) }
let begun = (): void => {}
const probe = definePlugin({
  name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'Answers, or never ends.',
  routes: {
    drip: { method: 'GET', url: '/drip', summary: 's', authority: 'read', stream: true },
    stuck: { method: 'GET', url: '/stuck', summary: 's', authority: 'read', stream: true },
    hang: { method: 'GET', url: '/hang', summary: 's', authority: 'read' }
  }
}, () => ({
  routes: {
    async drip (request) {
      const stream = request.open({ contentType: 'text/plain' })
      await stream.write('a drop')
    },
    async stuck (request) {
      await request.open({ contentType: 'text/plain' }).write('a drop')
      begun()
      await once(request.signal, 'abort')
    },
    async hang ({ signal }) { await once(signal, 'abort') }
  }
}))

t.test('what a node asks of itself leaves nothing on the signal of who asked', async (t) => {
  const rig = await startPlugin(t, probe)
  const own = rig.kernel.service(OwnApiService.id) as LocalApi
  const over = new AbortController()
  const { signal } = over
  const left = (): number => getEventListeners(signal, 'abort').length
  for (let i = 0; i < 3; i++) {
    t.match(await own.ask({ path: '/drip', caller, signal }), { status: 200, text: 'a drop' })
    t.match(await own.ask({ path: '/nowhere', caller, signal }), { status: 404 })
    const { bytes } = await own.open({ path: '/drip', caller, signal })
    for await (const part of bytes) t.equal(String(part), 'a drop')
  }
  t.equal(left(), 0)
  const warnings: string[] = []
  const note = (warning: Error): void => { warnings.push(warning.message) }
  process.on('warning', note)
  t.teardown(() => { process.off('warning', note) })
  const hanging = Array.from({ length: 12 }, async (_, i) =>
    await own[i % 2 === 0 ? 'ask' : 'open']({ path: '/hang', caller, signal }))
  t.equal(left(), 12)
  over.abort(new Error('gone'))
  for (const one of hanging) await t.rejects(one, /gone/)
  await new Promise(setImmediate)
  t.strictSame(warnings, [], 'one question to each of many nodes is no leak')
  await t.rejects(own.ask({ path: '/drip', caller, signal }), /gone/)
  await t.rejects(own.open({ path: '/drip', caller, signal }), /gone/)
})

t.test('an end in the middle of an answer gives the reason', async (t) => {
  const rig = await startPlugin(t, probe)
  const own = rig.kernel.service(OwnApiService.id) as LocalApi
  const over = new AbortController()
  const started = new Promise<void>((resolve) => { begun = resolve })
  const asked = own.ask({ path: '/stuck', caller, signal: over.signal })
  await started
  await new Promise(setImmediate)
  over.abort(new Error('gone'))
  await t.rejects(asked, /gone/)
})
