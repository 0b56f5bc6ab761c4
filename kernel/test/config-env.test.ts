import t from 'tap'
import { envName } from '../config/env.js'
import { nearest, editDistance } from '../config/nearest.js'
import { findSetting } from '../config/resolve.js'
import { parseTyped } from '../config/values.js'
import { formatPath, parsePath } from '../config/paths.js'
import { brief, owners, resolveText } from './config-fixture.js'
import type { ConfigOwner } from '../api/plugin.js'

t.test('variables are typed by the schema of their setting', async (t) => {
  const check = (name: string, text: string, path: string, expected: unknown): void => {
    const { config, problems, warnings } = resolveText('', { env: { [name]: text } })
    t.strictSame([brief(problems), brief(warnings)], [[], []], `${name}=${text}`)
    t.strictSame(config.entries(path).map(({ value, origin, source }) => [value, origin, source]),
      [[expected, 'env', name]], `${name}=${text}`)
  }
  check('SVC_API_PORT', '8080', 'api.port', 8080)
  check('SVC_API_PORT', ' 0 ', 'api.port', 0)
  check('SVC_API_HOST', '0.0.0.0', 'api.host', '0.0.0.0')
  check('SVC_NAME', '123', 'name', '123')
  check('SVC_LOGGING_ENABLED', 'true', 'logging.enabled', true)
  check('SVC_LOGGING_ENABLED', '0', 'logging.enabled', false)
  check('SVC_LOGGING_LEVEL', 'warn', 'logging.level', 'warn')
  check('SVC_API_ALLOWED_HOSTS', 'a.example, b.example', 'api.allowed_hosts', ['a.example', 'b.example'])
  check('SVC_API_ALLOWED_HOSTS', '["a.example"]', 'api.allowed_hosts', ['a.example'])
  check('SVC_API_ALLOWED_HOSTS', '', 'api.allowed_hosts', [])
  check('SVC_PLUGINS_RUNNERS_THREADS', '4', 'plugins.runners.threads', 4)
  check('SVC_PLUGINS_RUNNERS_RETRY_BASE_SECONDS', '1e-1', 'plugins.runners.retry.base_seconds', 0.1)
  check('SVC_PLUGINS_RUNNERS_BACKENDS', '{"x":"cpu"}', 'plugins.runners.backends.x', 'cpu')
  check('SVC_PLUGINS_RUNNERS_ENABLED', 'false', 'plugins.runners.enabled', false)
  check('SVC_NODE_CACHE_PATH', '/a', 'node_cache_path', '/a')
})

t.test('variables that do not fit are problems, unknown ones warnings', async (t) => {
  const check = (env: Record<string, string>, problems: string[], warnings: string[] = []): void => {
    const result = resolveText('', { env })
    t.strictSame([brief(result.problems), brief(result.warnings)], [problems, warnings])
  }
  const port = 'SVC_API_PORT api.port: expected a whole number from 0 to 65535, found'
  for (const text of ['http', '', '0x50', '1.5', '70000', '1e400']) {
    const shown = text === '1.5' || text === '70000' ? text : text === '1e400' ? 'Infinity' : `"${text}"`
    check({ SVC_API_PORT: text }, [`${port} ${shown}`])
  }
  check({ SVC_LOGGING_ENABLED: 'yes' },
    ['SVC_LOGGING_ENABLED logging.enabled: expected true or false, found "yes"'])
  check({ SVC_PLUGINS_RUNNERS_BACKENDS: 'cpu' },
    ['SVC_PLUGINS_RUNNERS_BACKENDS plugins.runners.backends: expected keys with values, found "cpu"'])
  check({ SVC_PLUGINS_RUNNERS_BACKENDS: '{"x":"gpu"}' },
    ['SVC_PLUGINS_RUNNERS_BACKENDS plugins.runners.backends.x: ' +
      'expected one of "cpu", "cuda", "webgpu", found "gpu" [cpu]'])
  check({ SVC_API_PROT: '1' }, [], ['SVC_API_PROT : unknown variable [SVC_API_PORT]'])
  check({ SVC_HOEM: '/x' }, [], ['SVC_HOEM : unknown variable [SVC_HOME]'])
  check({ SVC_COMPLETELY_DIFFERENT: '1' }, [], ['SVC_COMPLETELY_DIFFERENT : unknown variable'])
  check({
    SVC_HOME: 'x',
    SVC_CONFIG: 'x',
    SVC_URL: 'x',
    SVC_TOKEN: 'x',
    SVC_WARMUP_DEADLINE_SECONDS: 'x',
    SVC_TELEMETRY_DISABLE: '1',
    SVC_ONNX_TTS_SERVER_BIN: 'x',
    SVC_DEBUG: '1',
    SVC_LAUNCHER_PID: '1',
    SVC_LISTEN_FD: '3',
    SVC_TEST_X: 'x',
    SVC_BENCH_X: 'x',
    OTHER: 'x'
  }, [])
})

t.test('a variable that could mean two settings is refused when it is set', async (t) => {
  const twins = [
    { name: 'a-b', bundled: true, config: { type: 'object', properties: { c: { type: 'integer' } } } },
    { name: 'a', bundled: true, config: { type: 'object', properties: { b_c: { type: 'integer' } } } }
  ]
  const { problems } = resolveText('', { owners: twins, env: { SVC_PLUGINS_A_B_C: '1' } })
  t.strictSame(brief(problems), [
    'SVC_PLUGINS_A_B_C : could mean plugins.a-b.c and plugins.a.b_c; set it in svc.yaml instead'
  ])
  t.strictSame(resolveText('', { owners: twins }).problems, [])
})

t.test('where the file has a scalar in the way, its mistake is the one reported', async (t) => {
  const { problems } = resolveText('api: 5', { env: { SVC_API_PORT: '80' } })
  t.strictSame(brief(problems), ['1:1 api: expected keys with values, found 5'])
})

t.test('text by schema', async (t) => {
  const check = (text: string, schema: Record<string, unknown>, expected: unknown): void => {
    t.strictSame(parseTyped(text, schema), expected, `${text} ${JSON.stringify(schema)}`)
  }
  check('5', { type: ['integer', 'string'] }, 5)
  check('five', { type: ['integer', 'string'] }, 'five')
  check('null', { type: ['string', 'null'] }, null)
  check('true', { enum: ['auto', true, false] }, true)
  check('auto', { enum: ['auto', true, false] }, 'auto')
  check('3', { const: 3 }, 3)
  check('[1,2]', { type: 'array', items: { type: 'integer' } }, [1, 2])
  check('1,2', { type: 'array', items: { type: 'integer' } }, undefined)
  check('{"a":[1]}', {}, Object.assign(Object.create(null), { a: [1] }))
  check('toString', { type: 'boolean' }, undefined)
})

t.test('names, paths and nearness', async (t) => {
  t.equal(envName(['plugins', 'capabilities-tts', 'x_y']), 'SVC_PLUGINS_CAPABILITIES_TTS_X_Y')
  for (const path of [['a'], ['a', 'b-c', '0', 'd'], ['a.b', 'c d', '"q"'], ['x', '']]) {
    const text = formatPath(path)
    t.strictSame(parsePath(text), path.includes('') ? null : path, text)
  }
  const bad = ['', '.', 'a.', '.a', 'a..b', 'a b', 'a[', 'a[x]', '[0', 'a"b']
  for (const text of bad) t.equal(parsePath(text), null, text)
  t.match(formatPath(['a\u202eb\n']), '"a\\u202eb\\n"')
  const distances: [string, string, number][] =
    [['', 'abc', 3], ['kitten', 'sitting', 3], ['prot', 'port', 1], ['same', 'same', 0], ['a', '', 1]]
  for (const [a, b, expected] of distances) t.equal(editDistance(a, b), expected, `${a} ${b}`)
  t.equal(nearest('allowedHosts', ['host', 'allowed_hosts']), 'allowed_hosts')
  t.equal(nearest('zebra', ['host', 'port']), undefined)
  t.equal(nearest('x'.repeat(1e6), ['host']), undefined)
})

t.test('a setting is found by its path', async (t) => {
  const check = (path: string, expected: object): void => {
    t.match(findSetting(owners, path), expected, path)
  }
  check('api.port', { schema: { type: 'integer', default: 52415 } })
  check('plugins.runners.enabled', { schema: { type: 'boolean' } })
  check('plugins.runners.backends.x', { schema: { enum: ['cpu', 'cuda', 'webgpu'] } })
  check('node_cache_path', { schema: { default: '~/.svc/staging' } })
  check('api.prt', { schema: null, suggestion: 'api.port' })
  check('threads', { schema: null, suggestion: 'plugins.runners.threads' })
  check('api.name', { schema: null, suggestion: 'name' })
  const dotted: ConfigOwner = { name: 'x', bundled: true,
    config: { type: 'object', properties: { 'max.size': { type: 'integer' } } } }
  t.match(findSetting([dotted], 'plugins.x."max.sise"'), { suggestion: 'plugins.x."max.size"' })
  check('a b', { schema: null })
  check('constructor.name', { schema: null })
})
