import t from 'tap'
import { networkInterfaces } from 'node:os'
import { ask, call, dial, readStream, open, refusal, stream, type Stream } from './http.js'
import { faultsConfig, figure, startNode, until } from './kit.js'
import { does, TTS } from './engine.js'

const endless = does('test/ok', 'count', { bytes: 10, delayMs: 50 })

t.test('T-H06: too many concurrent requests', async (t) => {
  const outside = Object.values(networkInterfaces()).flat().find((i) => i?.family === 'IPv4' &&
    !i.internal)?.address
  const node = await startNode(t, { args: outside === undefined ? [] : ['--host', '0.0.0.0'],
    config: faultsConfig({
      limits: { streams_per_token: 16, connections_per_address: 64, calls_at_once: 17, calls_queued: 1 }
    }, { max_concurrent: 32 }) })

  t.test('the 17th stream of one token', async (t) => {
    const held: Stream[] = []
    for (let i = 0; i < 16; i++) held.push(await stream(node, TTS, endless))
    const refused = await ask(node, '/v1/capabilities/stream', { body: call(node, TTS, endless) })
    t.match([refused.status, refusal(refused)?.reason], [429, 'overloaded'])
    t.ok(Number(refused.headers['retry-after']) >= 1, 'says when to come again')
    t.equal(refusal(refused)?.retryable, true)
    const other = await stream(node, TTS, endless, { token: null })
    t.equal(other.status, 200, 'another caller still gets one')
    const queued = open(node, '/v1/capabilities/stream',
      { body: call(node, TTS, does('test/ok', 'count', { chunks: 1 })), token: null })
    await until('one waits in the queue', async () => {
      const full = await ask(node, '/v1/capabilities/stream', { body: call(node, TTS, endless),
        token: null })
      return full.status === 429 && refusal(full)?.details['waiting'] === 1 ? full : undefined
    })
    for (const { abort: leave } of [other, ...held]) leave()
    const after = await queued
    t.equal(after.statusCode, 200, 'what waited is served once there is room')
    after.destroy()
    const opened = await stream(node, TTS, does('test/ok', 'count', { chunks: 1 }))
    t.equal((await readStream(opened)).last?.header.kind,
      'completed')
  })

  t.test('the 65th connection of one address without a credential',
    { skip: outside === undefined ? 'this machine has only loopback' : false }, async (t) => {
      const url = `http://${outside}:${node.port}`
      const held = await Promise.all(Array.from({ length: 64 }, () => dial(node.port, outside)))
      const refused = await ask({ url }, '/healthz')
      t.match([refused.status, refusal(refused)?.reason], [429, 'overloaded'])
      t.ok(Number(refused.headers['retry-after']) >= 1)
      t.equal((await ask({ url, token: node.token }, '/healthz')).status, 200,
        'a credential is not held to it')
      t.equal((await ask(node, '/healthz', { token: null })).status, 200, 'nor is loopback')
      for (const { socket } of held) socket.destroy()
      await until('there is free space again', async () => (await ask({ url }, '/healthz')).status === 200)
    })
  figure(t, 'T-H06', t.passing(), {})
})
