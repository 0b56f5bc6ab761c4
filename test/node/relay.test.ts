import OpenAI from 'openai'
import t from 'tap'
import { startCluster, type Member } from './cluster-kit.js'
import { pairAt } from './devices-kit.js'
import { does, TTS } from './engine.js'
import { ask, stream, type Host } from './http.js'
import { faultsConfig, figure, fixture, folder, until, cli, run } from './kit.js'
import { rss } from './proc.js'
import { atRelay, counted, killed, relayView, serveDevice, startRelay } from './relay-kit.js'

const CHAT = 'svc/guide'
const QUESTION = 'what is no_quorum'

t.test('a relayed device works as at the node, whichever process dies', async (t) => {
  let relay = await startRelay(t)
  const config = {
    ...faultsConfig({ plugins: { planner: { module: fixture('planner.mjs') } } },
      { autoplace: ['svc/voice-en', CHAT, 'test/ok', 'test/planner'] }),
    relay: { url: relay.url }
  }
  const cluster = await startCluster(t, { nodes: 2, config })
  const [one] = cluster.members as [Member, Member]
  await Promise.all(cluster.members.map(async ({ node }) => { await atRelay(node) }))
  await until('every model', async () => (await ask(one.node, '/readyz')).status === 200)
  const { home, told } = await pairAt(t, one.node)
  t.match(told, /To reach it from other networks, run {2}svc device serve/, 'pairing has told where')
  const serve = await serveDevice(t, home)
  t.equal(serve.bearer, null)
  const host: Host = { url: serve.url, revision: (name) => one.node.revision(name) }
  /** The member that currently answers the device's requests. */
  const met = async (): Promise<Member | undefined> => {
    const { status, json } = await ask(serve, '/node_id')
    return status === 200 ? cluster.up().find(({ node }) => node.nodeId === json) : undefined
  }

  await t.test('speech and chat are streamed', async (t) => {
    const endless = await stream(host, TTS, does('test/ok', 'count', { bytes: 2000, delayMs: 20 }))
    let heard = 0
    for await (const { media } of endless.frames) {
      heard += media?.length ?? 0
      if (heard > 20_000) break
    }
    endless.abort()
    t.ok(heard > 20_000, 'of what never ends')
    await until('its end at the node', async () =>
      (await Promise.all(cluster.members.map(async ({ node }) => (await relayView(node)).streams)))
        .every((open) => open === 0))
    const spoken = { body: { model: 'svc/voice-en', input: 'A fox.', response_format: 'wav' } }
    const [near, far] = [await ask(one.node, '/v1/audio/speech', spoken),
      await ask(serve, '/v1/audio/speech', spoken)]
    t.equal(far.status, 200, far.text)
    t.ok(far.bytes.equals(near.bytes), `${far.bytes.length} bytes of speech, as directly`)
    const client = new OpenAI({ baseURL: `${serve.url}/v1`, apiKey: 'none' })
    const parts: string[] = []
    const messages = [{ role: 'user' as const, content: QUESTION }]
    for await (const part of await client.chat.completions.create({ model: CHAT, messages, stream: true })) {
      parts.push(part.choices[0]?.delta.content ?? '')
    }
    t.match(parts.join(''), /no_quorum/)
    t.ok(parts.length > 3, `${parts.length} parts`)
  })

  await t.test('a large upload, and a WebSocket of the state', async (t) => {
    const large = 'fox '.repeat(100_000)
    const { status, json } = await ask(serve, '/v1/chat/completions',
      { body: { model: 'test/planner', messages: [{ role: 'user', content: `say: ${large}` }] } })
    t.equal(status, 200)
    const { choices } = json as { choices: { message: { content: string } }[] }
    t.equal(choices[0]!.message.content.trim(), large.trim(), 'all of it came, and came back')
    const away = folder(t)
    const follow = run(process.execPath, [cli, 'state', '--follow', '--json', '--home', away,
      '--url', serve.url])
    await until('the whole state', () => follow.stdout().includes(one.node.nodeId))
    follow.process.kill('SIGINT')
    await follow.ended
  })

  await t.test('a reader that stops uses no memory', async (t) => {
    const at = await until('a node', met)
    const pids = { relay: relay.pid, node: at.pid(), serve: serve.pid }
    const measured = (): number[] => Object.values(pids).map((pid) => Math.round(rss(pid) / 2 ** 20))
    const before = measured()
    const slow = await stream(host, TTS, does('test/ok', 'count', { bytes: 60_000, chunks: 8000 }))
    let passed = -1
    await until('everything between to be full', async () => {
      const last = passed
      passed = await counted(relay, 'bytes_total')
      await ask(serve, '/node_id')
      return passed - last < 20_000
    }, { everyMs: 300 })
    const grown = measured().map((now, i) => now - before[i]!)
    const values = Object.fromEntries(Object.keys(pids).map((name, i) => [name, grown[i]]))
    figure(t, 'slow reader, MiB more', grown.every((more) => more < 100), { ...values, passed })
    slow.abort()
  })

  await t.test('kill -9 of the relay: both sides reconnect', async (part) => {
    const { port } = relay
    await killed(relay)
    await until('the nodes to miss it', async () =>
      (await Promise.all(cluster.members.map(async ({ node }) => (await relayView(node)).connected)))
        .every((there) => !there))
    part.equal((await ask(serve, '/node_id')).status, 502)
    // The relay stops at the end of the whole test instead of this subtest, because later subtests need it.
    relay = await startRelay(t, port)
    await Promise.all(cluster.members.map(async ({ node }) => { await atRelay(node) }))
    part.ok(await until('the device to be back', met))
  })

  await t.test('kill -9 of the device\'s node: it continues at the other', async (t) => {
    const gone = await until('a node', met)
    await gone.kill()
    const other = await until('the other node', met)
    t.not(other, gone)
    const again = await until('speech', async () => {
      const body = { model: 'svc/voice-en', input: 'A fox.' }
      const answer = await ask(serve, '/v1/audio/speech', { body })
      return answer.status === 200 && answer
    })
    t.ok(again.bytes.length > 1000)
    await gone.start()
    await cluster.agreed()
    await atRelay(gone.node)
    t.equal(await met(), other, 'what works is not left')
  })

  await t.test('a normal end leaves nothing behind', async (t) => {
    serve.child.process.kill('SIGTERM')
    t.equal(await serve.child.ended, 0, serve.child.stderr())
    await until('no device', async () => await counted(relay, 'devices') === 0)
    relay.child.process.kill('SIGTERM')
    t.equal(await relay.child.ended, 0, relay.child.stderr())
  })
})
