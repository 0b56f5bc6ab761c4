/** A real node as the upstream of a cluster, and one node that asks it for the other. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { quiet, startCluster } from './cluster-kit.js'
import { ask, refusal, type Answer, type At } from './http.js'
import { folder, startNode, svc, until, writeConfig } from './kit.js'
import { freePorts } from './ports.js'

const MODEL = 'far/svc/steward'
const messages = [{ role: 'user', content: 'is everything fine?' }]
const chat = async (at: At, model: string, more: object = {}): Promise<Answer> =>
  await ask(at, '/v1/chat/completions', { body: { model, messages, ...more } })

t.test('a model of another cluster, with the key on one node', async (t) => {
  const homes = [folder(t), folder(t)]
  const farHome = join(folder(t), 'home')
  const [port] = await freePorts(1)
  const startFar = async (): ReturnType<typeof startNode> =>
    await startNode(t, { home: farHome, config: quiet, args: ['--port', String(port)] })
  let far = await startFar()
  const upstreams = {
    servers: {
      far: { url: `http://127.0.0.1:${port}/v1`, key_file: 'far.key' },
      out: {
        url: `http://127.0.0.1:${port}/v1`, key_file: 'far.key', external: true, models: ['svc/steward']
      },
      messages: { url: `http://127.0.0.1:${port}/v1`, key_file: 'far.key', api: 'anthropic' }
    },
    models: { chat: { try: [MODEL, 'svc/steward'], when: { first_token_seconds: 10 } } }
  }
  writeFileSync(join(homes[0]!, 'far.key'), `${far.token}\n`, { mode: 0o600 })
  const cluster = await startCluster(t, {
    nodes: 2, homeOf: (n) => homes[n - 1]!, config: { plugins: { ...quiet.plugins, upstreams } }
  })
  const [one, two] = [cluster.members[0]!.node, cluster.members[1]!.node]
  const listed = async (at: At) => ((await ask(at, '/v1/models')).json as
    { data: { id: string, ready: boolean, remedy: string | null }[] }).data.find(({ id }) => id === MODEL)
  for (const at of [one, two]) await until('the model', async () => (await listed(at))?.ready === true)

  for (const at of [one, two]) {
    const answer = await chat(at, MODEL)
    t.equal(answer.status, 200, answer.text)
    t.match(answer.json, { model: MODEL, choices: [{ message: { content: /\w/ }, finish_reason: 'stop' }] })
    const model = 'messages/svc/steward'
    t.match((await chat(at, model)).json, { model, choices: [{ message: { content: /\w/ } }] })
    const streamed = await chat(at, MODEL, { stream: true })
    t.match(streamed.text, /"content":"[^]*\[DONE\]/)
  }
  t.equal((await chat(two, 'chat')).headers['x-svc-model'], MODEL)
  // Neither the chain nor the node with the key counts a request again.
  const used = (await ask(one, '/v1/usage?by=model')).json as { rows: { key: string, requests: number }[] }
  t.same(used.rows.map(({ key, requests }) => [key, requests]), [[MODEL, 5], ['messages/svc/steward', 2]])
  const why = async (): Promise<string> => {
    const { stdout, stderr } = await svc(['why', MODEL, '--url', two.url, '--token', two.token])
    return stdout + stderr
  }
  t.match(await why(), /far\/svc\/steward answers/)
  const listing = await svc(['ls', '--url', two.url, '--token', two.token])
  t.match(listing.stdout, /far\/svc\/steward +- +- +ready/)
  t.match((await ask(two, '/v1/models/chat')).json, { id: 'chat', virtual: true, ready: true })
  const shown = await svc(['config', 'get', 'plugins.upstreams', '--home', homes[0]!])
  for (const { text } of [await ask(one, '/state'), await ask(one, '/config'), await ask(two, '/state')]) {
    t.notMatch(text + shown.stdout, far.token)
  }
  const direct = await ask(two, '/upstreams/tasks', { body: { model: MODEL, payload: {} } })
  t.match(refusal(direct), { reason: 'not_found' })

  const tokenOf = async (authorities: string[], token = two.token): Promise<Answer> =>
    await ask(two, '/v1/tokens', { token, body: { label: 'x', authorities } })
  const made = async (...authorities: string[]): Promise<string> =>
    ((await tokenOf(authorities)).json as { token: string }).token
  const [plain, allowed] = [await made('read', 'invoke', 'operator'), await made('invoke', 'external')]
  const outside = async (token: string): Promise<Answer> =>
    await chat({ url: two.url, token }, 'out/svc/steward')
  t.match(refusal(await outside(plain)),
    { reason: 'missing_grant', details: { authority: 'external', node: 'n1' } })
  t.equal((await outside(allowed)).status, 200)
  t.match(refusal(await tokenOf(['invoke', 'external'], plain)), { reason: 'missing_grant' }, 'not passed on')

  await far.kill()
  const refused = await chat(two, MODEL)
  t.equal(refused.status, 503, refused.text)
  t.match(refusal(refused), { reason: 'upstream_unavailable', message: /ECONNREFUSED/ })
  for (const at of [one, two]) {
    await until('the fallback', async () =>
      (await chat(at, 'chat')).headers['x-svc-model'] === 'svc/steward')
  }
  await until('that the lists say so', async () => (await listed(two))?.ready === false)
  t.match(await why(), /ECONNREFUSED/)
  far = await startFar()
  await until('the server again', async () => (await chat(two, 'chat')).headers['x-svc-model'] === MODEL)

  await cluster.members[0]!.kill()
  const gone = await chat(two, MODEL)
  t.ok([502, 503].includes(gone.status), gone.text)
  await until('the fallback', async () =>
    (await chat(two, 'chat')).headers['x-svc-model'] === 'svc/steward')
})

t.test('two clusters that name each other', async (t) => {
  const ports = await freePorts(2)
  const nodes = await Promise.all([0, 1].map(async (i) => await startNode(t, {
    home: join(folder(t), 'home'), args: ['--port', String(ports[i])],
    config: { plugins: { ...quiet.plugins, upstreams: {
      servers: { other: { url: `http://127.0.0.1:${ports[1 - i]}/v1`, models: { m: { id: 'other/m' } } } }
    } } }
  })))
  const answer = await until('both to answer', async () => {
    const one = await chat(nodes[0]!, 'other/m')
    return one.status === 508 && one
  })
  t.equal(answer.status, 508, answer.text)
  t.match(refusal(answer), { reason: 'upstream_loop' })
})

t.test('a server by TLS, whose certificate is checked', async (t) => {
  const far = await startNode(t, { config: { ...quiet, api: { tls: 'self' } } })
  const upstreams = { servers: { far: { url: `${far.url}/v1`, key: far.token, models: ['svc/steward'] } } }
  const config = { plugins: { ...quiet.plugins, upstreams } }
  const doubts = await startNode(t, { config })
  t.match(refusal(await chat(doubts, MODEL)), { reason: 'upstream_unavailable', message: /CERT|certificate/ })
  const trusts = await startNode(t, { config, env: { NODE_EXTRA_CA_CERTS: join(far.home, 'api-ca.crt') } })
  const answer = await chat(trusts, MODEL)
  t.equal(answer.status, 200, answer.text)
})

t.test('a mistake in the file is told with its line, and a key is not shown', async (t) => {
  const home = join(folder(t), 'home')
  const far = { url: 'http://127.0.0.1:1/v1', key: 'sk-inline', headers: { 'x-key': 'sk-header' } }
  writeConfig(home, { plugins: { upstreams: { servers: { far } } } })
  const { stdout: shown } = await svc(['config', 'get', '--home', home])
  t.match(shown, /plugins\.upstreams\.servers\.far\.key/)
  t.notMatch(shown, /sk-/)
  writeConfig(home, ['plugins:', '  upstreams:', '    servers:', '      far:',
    '        url: http://127.0.0.1:1/v1', '        kee: x'].join('\n'))
  const { stdout, stderr } = await svc(['config', 'check', '--home', home])
  t.match(stdout + stderr, /svc\.yaml:6.*plugins\.upstreams\.servers\.far\.kee/)
})
