import { WebSocket } from 'ws'
import t from 'tap'
import { WebsocketProvider } from 'y-websocket'
import { Doc } from 'yjs'
import { stateOf } from '../../../kernel/test/state-entries.js'
import type { Entry } from '../../../kernel/state/entries.js'
import { ask } from '../../node/http.js'
import { folder, startNode, until, type TestNode } from '../../node/kit.js'

// One provider is used throughout, as in a client, and must reconnect by itself when its node restarts.
t.test('a stock y-websocket provider outlives its node without a doubled entry', async (t) => {
  const home = folder(t)
  const start = async (port: number): Promise<TestNode> => await startNode(t, {
    home, args: port === 0 ? [] : ['--port', String(port)],
    config: { plugins: { placement: { autoplace: ['svc/voice-en'] } } }
  })
  let node = await start(0)
  const { port } = node
  const doc = new Doc()
  const provider = new WebsocketProvider(`${node.url.replace('http', 'ws')}/state`, 'sync', doc, {
    disableBc: true, maxBackoffTime: 500,
    WebSocketPolyfill: WebSocket as unknown as typeof globalThis.WebSocket
  })
  t.teardown(() => {
    provider.destroy()
    // Clears the interval of the provider's awareness, which would keep the process alive.
    doc.destroy()
  })
  const entries = doc.getArray<Entry>('entries')
  const nodes = new Set<string>()
  for (const ending of ['kill', 'stop', 'kill', null] as const) {
    const { nodeId } = node
    nodes.add(nodeId)
    await until('the state of this start', () => stateOf(entries)['localNodeId'] === nodeId)
    const keysOf = (state: object): string => Object.keys(state).sort().join()
    const { json } = await ask(node, '/state')
    await until('every key of /state', () => keysOf(stateOf(entries)) === keysOf(json as object))
    const state = stateOf(entries) as { nodeIdentities: object, instances: object }
    t.strictSame(Object.keys(state.nodeIdentities), [nodeId], 'nothing of an earlier start')
    t.equal(Object.keys(state.instances).length, 1)
    const keys = entries.map(({ key }) => key)
    t.equal(keys.length, new Set(keys).size, `each of ${keys.length} keys once`)
    if (ending === 'kill') await node.kill()
    else if (ending === 'stop') {
      process.kill(node.child.pid, 'SIGTERM')
      await node.child.ended
    }
    if (ending !== null) node = await start(port)
  }
  t.equal(nodes.size, 4)
})
