/** The wyoming package, which Home Assistant uses, against a node with the bundled voice. */
import t from 'tap'
import { ask } from '../../node/http.js'
import { startNode, until } from '../../node/kit.js'
import { environment, script } from './kit.js'

const { folder: programs = '', missing } = environment('wyoming')

t.test('wyoming 1.10.2', { skip: missing ?? false, timeout: 300_000 }, async (t) => {
  const node = await startNode(t, { config: { cluster: { discovery: false }, wyoming: { port: 0 } } })
  const { port } = (await ask(node, '/v1/wyoming')).json as { port: number }
  const speech = { body: { model: 'svc/voice-en', input: 'Hi.' } }
  await until('the voice', async () => (await ask(node, '/v1/audio/speech', speech)).status === 200)
  const said = await script(t, programs, 'wyoming', [String(port)])
  t.match(said, {
    pong: 'x', voice: /^svc\/voice-en\//, asr: [], stops: 1,
    error: 'not_found', closed: true, text: 'no_instance'
  })
  t.ok(Number(said['seconds']) > 3 && Number(said['streamed']) > 3, JSON.stringify(said))
})
