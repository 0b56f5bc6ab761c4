import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { ask } from '../../node/http.js'
import { cleanEnv, root, startNode } from '../../node/kit.js'

const here = join(root, 'test/clients/tools')
const made = join(here, 'dist')
/** Folder of the clients that `npm run test:clients` installs. */
const clients = join(root, 'test/clients')

/** Runs a CLI of the packages installed in a folder. */
function tool (from: string, name: string, ...words: string[]): { status: number | null, said: string } {
  const { status, stdout, stderr } = spawnSync(join(from, 'node_modules/.bin', name), words,
    { cwd: here, encoding: 'utf8', env: cleanEnv({ REDOCLY_TELEMETRY: 'off', CI: '1' }) })
  return { status, said: `${stdout}${stderr}` }
}

const node = await startNode(t)
const document = (await ask(node, '/openapi.json')).json as { paths: object }
mkdirSync(made, { recursive: true })
writeFileSync(join(made, 'openapi.json'), JSON.stringify(document))

t.test('redocly accepts /openapi.json', async (t) => {
  t.ok(Object.keys(document.paths).length > 50)
  const { said } = tool(clients, 'redocly', 'lint', 'dist/openapi.json', '--format=json')
  const { problems } = JSON.parse(/\{[^]*\}/.exec(said)![0]) as {
    problems: { ruleId: string, message: string, location: { pointer: string }[] }[]
  }
  t.strictSame(problems.map(({ ruleId, message, location: [at] }) =>
    `${ruleId}: ${message} ${at?.pointer}`), [])
})

t.test('every answer has a non-empty schema', (t) => {
  type Media = Record<string, { schema?: object }>
  const operations = Object.entries(document.paths as Record<string, Record<string, {
    responses: Record<string, { content: Media }>
  }>>).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) =>
    [`${method} ${path}`, operation] as const))
  for (const [name, { responses }] of operations) {
    for (const [status, { content }] of Object.entries(responses)) {
      for (const [type, { schema = {} }] of Object.entries(content)) {
        t.ok(Object.keys(schema).length > 0, `${name} ${status} ${type}`)
      }
    }
    t.ok(Object.keys(responses).length > 2, `${name} tells its errors`)
  }
  t.end()
})

t.test('a generated client compiles and works', async (t) => {
  const types = tool(clients, 'openapi-typescript', 'dist/openapi.json', '-o', 'dist/api.d.ts')
  t.equal(types.status, 0, types.said)
  const compiled = tool(root, 'tsc', '-p', 'fixtures')
  t.equal(compiled.status, 0, compiled.said)
  writeFileSync(join(made, 'package.json'), '{"type":"module"}')
  const ran = spawnSync(process.execPath, [join(made, 'client.js'), node.url],
    { cwd: here, encoding: 'utf8', env: cleanEnv() })
  t.equal(ran.status, 0, ran.stderr)
  const saw = JSON.parse(ran.stdout) as Record<string, unknown>
  t.match(saw, {
    master: node.nodeId, live: 1, reason: 'no_instance', type: 'not_found_error', event: /data:|: kee/,
    answer: /svc [a-z]+/
  })
  t.ok((saw['ids'] as string[]).includes('svc/voice-en'))
  t.ok(Number(saw['bytes']) > 1000 && Number(saw['total']) > 0)
})

t.test('the schemas of every capability are strict JSON Schema 2020-12', async (t) => {
  const { capabilities } = (await ask(node, '/v1/capabilities')).json as
    { capabilities: Record<string, unknown>[] }
  t.ok(capabilities.length >= 3)
  for (const capability of capabilities) {
    for (const part of ['input_schema', 'output_schema', 'input_chunk_schema', 'output_chunk_schema']) {
      const schema = capability[part] as object | null
      if (schema === null) continue
      // Nullable fields have two types, which is the only deviation from Ajv's strictest mode.
      const ajv = new Ajv2020({ strict: true, allowUnionTypes: true })
      t.doesNotThrow(() => ajv.compile(schema), `${String(capability['id'])} ${part}`)
    }
  }
})
