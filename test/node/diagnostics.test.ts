import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { unpackTar } from '../../plugins/diagnostics/test/kit.js'
import { readExposition } from '../../plugins/diagnostics/test/exposition.js'
import { ask, call } from './http.js'
import { faultsConfig, folder, root, startNode, svc } from './kit.js'
import { tokenWith } from './routes.js'

const TTS = 'tts@1.0.0'
const PROMPT = 'canaryprompt4711 of my neighbour'
const KEY = 'canarykey0987654321'

t.test('a node shows, counts and bundles its work without any request text', async (t) => {
  const node = await startNode(t, {
    env: { CANARY_KEY: KEY },
    config: faultsConfig({ tracing: { otlp_headers: { 'x-key': '${env.CANARY_KEY}' } } })
  })
  const app = await tokenWith(node, ['read', 'invoke'])
  const speak = async (instruct: object): Promise<{ text: string }> => {
    const payload = { model: 'test/ok', text: PROMPT, instruct: JSON.stringify(instruct) }
    return await ask(node, '/v1/capabilities/stream',
      { token: app, headers: { accept: 'text/event-stream' }, body: call(node, TTS, payload) })
  }

  await t.test('every metric of the Grafana dashboard exists before the first request', async (t) => {
    const dashboard = readFileSync(join(root, 'docs/grafana/svc.json'), 'utf8')
    const { panels } = JSON.parse(dashboard) as { panels: { targets?: { expr: string }[] }[] }
    const exprs = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)).join('\n')
    const names = [...new Set(exprs.match(/\b(svc|process|nodejs)_[a-z0-9_]+\b/g))]
    t.ok(names.length > 40, `${names.length} metrics`)
    const { text } = await ask(node, '/metrics', { token: app })
    const absent = names.filter((name) => !new RegExp(`^${name}[ {]`, 'm').test(text))
    t.same(absent, ['svc_telemetry_last_publish_age_seconds'], 'which has no value before the first publish')
    const zero = ['svc_tasks_total', 'svc_task_duration_seconds_bucket', 'svc_call_queue_seconds_bucket',
      'svc_generated_tokens_total', 'svc_audio_seconds_total', 'svc_downloads_total', 'svc_calls_running']
    for (const name of zero) {
      const values = [...text.matchAll(new RegExp(`^${name}[ {].* (\\S+)$`, 'gm'))].map(([, value]) => value)
      t.ok(values.length > 0 && values.every((value) => value === '0'), `${name} is 0`)
    }
  })

  await t.test('requests are counted', async (t) => {
    t.match((await speak({ do: 'count', chunks: 3 })).text, /"kind":"completed"/)
    const answer = await ask(node, '/metrics', { token: app })
    t.equal(answer.status, 200)
    const families = readExposition(answer.text)
    const sum = (name: string): number =>
      (families.get(name)?.samples ?? []).reduce((total, { value }) => total + value, 0)
    const once = ['svc_tasks_total', 'svc_calls_total', 'svc_runner_tasks_completed_total', 'svc_runners']
    for (const name of once) t.equal(sum(name), 1, name)
    const some = ['svc_http_requests_total', 'svc_events_total', 'svc_event_log_last_index',
      'svc_home_free_bytes', 'svc_task_first_output_seconds', 'svc_log_lines_total']
    for (const name of some) t.ok(sum(name) > 0, name)
  })

  await t.test('the bundle has no prompt and no secret', async (t) => {
    const file = join(folder(t), 'bug.tar.gz')
    const ran = await svc(['capture', '-o', file, '--home', node.home])
    t.match(ran, { status: 0, stdout: /no prompts, texts, tokens or keys/ })
    const files = unpackTar(gunzipSync(readFileSync(file)))
    const text = files.map(({ bytes }) => Buffer.from(bytes).toString()).join('\n')
    for (const secret of [PROMPT, 'canaryprompt', KEY, node.token, app]) {
      t.notOk(text.includes(secret), `"${secret.slice(0, 12)}…" is not in it`)
    }
    const parts = files.map(({ name, bytes }) => [name.split('/')[1], bytes.byteLength > 2])
    t.same(parts.filter(([, there]) => there === false), [], 'every part was collected')
  })
})

t.test('GET /metrics has the same open findings for every caller', async (t) => {
  const node = await startNode(t, {
    env: { SVC_TELEMETRY_DISABLE: '1' }, config: { plugins: { placement: { autoplace: [] } } }
  })
  for (const token of [await tokenWith(node, ['read']), node.token]) {
    const { text } = await ask(node, '/metrics', { token })
    t.match(text, /^svc_finding\{code="readings_disabled",severity="\w+"\} 1$/m)
  }
})
