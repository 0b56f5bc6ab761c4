import t from 'tap'
import { request, type IncomingHttpHeaders } from 'node:http'
import { gzipSync, gunzipSync } from 'node:zlib'
import { definePlugin, Reply } from '../index.js'
import { startPlugin } from '../testing/index.js'

const PAGE = gzipSync('<p>A page.</p>')
const routes = {
  file: { method: 'GET', url: '/file', summary: 's', authority: null, produces: 'application/octet-stream' },
  value: { method: 'GET', url: '/value', summary: 's', authority: null }
} as const

const files = definePlugin({
  name: 'files', version: '1.0.0', kernel: '^1.0.0', summary: 'Serves a compressed file.', routes
}, () => ({
  routes: {
    file: ({ headers }) => {
      const etag = '"1"'
      if (headers['if-none-match'] === etag) return new Reply(undefined, 304, { etag })
      return new Reply(PAGE, 200,
        { 'content-type': 'text/html; charset=utf-8', 'content-encoding': 'gzip', etag })
    },
    value: ({ headers }) => new Reply({ a: 1 }, 200, headers['accept'] === 'application/problem+json'
      ? { 'Content-Type': 'application/problem+json' }
      : {})
  }
}))

t.test('an answer may have a media type of its own, bytes of a file, or nothing new', async (t) => {
  const rig = await startPlugin(t, files)
  const url = new URL(await rig.listen())
  const ask = (
    method: string, path: string, headers: Record<string, string> = {}
  ): Promise<{ status: number | undefined, headers: IncomingHttpHeaders, body: Buffer }> =>
    new Promise((resolve, reject) => {
      request(new URL(path, url), { method, headers }, (answer) => {
        const parts: Buffer[] = []
        answer.on('data', (part: Buffer) => { parts.push(part) })
        answer.on('end', () => {
          resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(parts) })
        })
      }).on('error', reject).end()
    })
  const said = ({ headers }: { headers: IncomingHttpHeaders }): IncomingHttpHeaders => Object.fromEntries(
    ['content-type', 'content-encoding', 'content-length', 'etag'].map((name) => [name, headers[name]]))
  const whole = await ask('GET', '/file')
  const expected = {
    'content-type': 'text/html; charset=utf-8', 'content-encoding': 'gzip',
    'content-length': `${PAGE.length}`, etag: '"1"'
  }
  t.equal(whole.status, 200)
  t.match(said(whole), expected)
  t.equal(String(gunzipSync(whole.body)), '<p>A page.</p>')
  const head = await ask('HEAD', '/file')
  t.match(said(head), expected, 'HEAD says the same')
  t.equal(head.body.length, 0)
  for (const method of ['GET', 'HEAD']) {
    const same = await ask(method, '/file', { 'if-none-match': '"1"' })
    t.equal(same.status, 304)
    t.equal(same.body.length, 0)
    t.strictSame(said(same), {
      'content-type': undefined, 'content-encoding': undefined, 'content-length': undefined, etag: '"1"'
    }, `${method} 304`)
    t.ok(same.headers['x-svc-request-id'])
    t.equal((await ask(method, '/value')).status, 200, 'the connection goes on')
  }
  const plain = await ask('GET', '/value')
  t.match(said(plain), { 'content-type': 'application/json; charset=utf-8' })
  const own = await ask('GET', '/value', { accept: 'application/problem+json' })
  t.match(said(own), { 'content-type': 'application/problem+json' })
  t.strictSame(JSON.parse(String(own.body)), { a: 1 }, 'values are written as JSON')
})
