import { once } from 'node:events'
import t from 'tap'
import { WebSocket } from 'ws'
import { definePlugin, kernelError, systemClock } from '../index.js'
import { createCapabilities } from '../plugins/capabilities.js'
import { startPlugin } from '../testing/index.js'
import type { CapabilityDecl, CapabilityServer, SocketRequest } from '../index.js'

const decl = (id: string): CapabilityDecl => ({
  id, version: '1.0.0', title: 'T', description: 'D', io_mode: 'unary', annotations: {},
  input_schema: { type: 'object' }
})

/** The plugins' capabilities on a node that has received these document entries from others. */
function contributed (entries: object[] = []): ReturnType<typeof createCapabilities> {
  const cluster = {
    sections: { section: () => ({ entries: () => entries }) },
    service: { resolve: (id: string) => ({ installId: `install of ${id}` }) }
  }
  return createCapabilities({ node: { nodeId: 'own' }, cluster, callLimits: {} } as never)
}

/** A fake capability server that records registrations and rejects the id `twice`. */
function recorder (): CapabilityServer & { served: string[], ended: string[] } {
  const served: string[] = []
  const ended: string[] = []
  return {
    served, ended,
    register (owner, { id }) {
      if (id === 'twice') throw new Error('already registered')
      served.push(`${owner} ${id}`)
      return () => { served.splice(served.indexOf(`${owner} ${id}`), 1) }
    },
    async end (owner) { ended.push(owner) }
  }
}

t.test('a server gets what was there before it and what comes later, until either goes', async (t) => {
  const all = contributed()
  const undo = all.register('a', decl('first'), () => null)
  const gone = all.register('a', decl('gone'), () => null)
  gone()
  await all.end('a', () => kernelError('internal'))
  const server = recorder()
  const stop = all.serve(server)
  t.same(server.served, ['a first'])
  all.register('b', decl('second'), () => null)
  t.same(server.served, ['a first', 'b second'])
  t.throws(() => all.register('b', decl('twice'), () => null), /already registered/)
  t.throws(() => all.serve(recorder()), /another plugin serves/)
  await all.end('b', () => kernelError('internal'))
  t.same(server.ended, ['b'])
  undo()
  t.same(server.served, ['b second'])
  stop()
  t.same(server.served, [])
  const next = recorder()
  all.serve(next)
  t.same(next.served, ['b second'], 'what was refused is not kept')
})

t.test('another node that says it serves a capability', (t) => {
  const { elsewhere } = contributed([
    { nodeId: 'own', key: 'capabilities', value: ['tts'] }, { nodeId: 'x', key: 'health', value: ['tts'] },
    { nodeId: 'x', key: 'capabilities', value: 'tts' }, { nodeId: 'y', key: 'capabilities', value: ['tts'] }
  ])
  t.equal(elsewhere('tts'), 'install of y')
  t.equal(elsewhere('chat'), null)
  t.end()
})

t.test('a WebSocket of a plugin is behind the guards of all routes, and ends with its plugin', async (t) => {
  const requests: SocketRequest[] = []
  const echo = definePlugin({
    name: 'echo', version: '1.0.0', kernel: '^1.0.0', summary: 'Echoes.',
    routes: {
      talk: {
        method: 'GET', url: '/talk', authority: 'invoke', summary: 'Talks.', stream: true, socket: true
      }
    }
  }, () => ({
    routes: {
      talk (ws, request) {
        requests.push(request)
        ws.on('message', (data) => { ws.send(data as Buffer, { binary: true }, () => {}) })
        request.signal.addEventListener('abort', () => { ws.close(4410, 'over') })
      }
    }
  }))
  const host = definePlugin({ name: 'host', version: '1.0.0', kernel: '^1.0.0', summary: 'x' }, () => ({}))
  const rig = await startPlugin(t, host, { plugins: [echo], clock: systemClock })
  const url = await rig.listen()
  t.equal((await fetch(`${url}/talk`)).status, 404, 'a plain request finds nothing')
  const ws = new WebSocket(`${url.replace('http', 'ws')}/talk`)
  await once(ws, 'open')
  ws.send('hello')
  t.equal(String((await once(ws, 'message'))[0]), 'hello')
  t.equal(requests[0]!.caller.id, 'local')
  const closed = once(ws, 'close')
  const payload = { enabled: false }
  const off = await rig.inject({ method: 'POST', url: '/v1/plugins/echo', payload })
  t.match(off.json(), { in_effect: true })
  t.equal((await closed)[0], 4410)
  t.match(requests[0]!.signal.reason, { reason: 'plugin_disabled' })
  t.match(await (await fetch(`${url}/talk`)).json(), { error: { reason: 'plugin_disabled' } })
  const strict = await startPlugin(t, echo, { allow: ['read'], clock: systemClock })
  const refused = new WebSocket(`${(await strict.listen()).replace('http', 'ws')}/talk`)
  const [error] = await once(refused, 'error') as [Error]
  t.match(error.message, /401/)
  t.equal(requests.length, 1)
})
