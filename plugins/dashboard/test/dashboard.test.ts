import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'
import { startPlugin } from '../../../kernel/testing/index.js'
import { encodingFor, pageFiles } from '../files.js'
import dashboard from '../index.js'

t.test('the encoding follows what the client accepts', (t) => {
  const cases: [string | undefined, string | null][] = [
    [undefined, null], ['', null], ['gzip, deflate, br', 'br'], ['gzip', 'gzip'],
    ['gzip;q=1, br;q=0.5', 'gzip'], ['br;q=0, gzip;q=0', null],
    ['*', 'br'], ['identity', null], ['*;q=0', null], ['br;q=x, gzip', 'gzip']
  ]
  for (const [accepted, expected] of cases) t.equal(encodingFor(accepted), expected, accepted ?? 'none')
  t.end()
})

t.test('the page and its files, compressed and with an ETag', async (t) => {
  const rig = await startPlugin(t, dashboard)
  const plain = await rig.inject({ url: '/' })
  t.equal(plain.statusCode, 200)
  t.match(plain.headers, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache' })
  const policy = String(plain.headers['content-security-policy'])
  t.notMatch(policy, /unsafe/)
  t.match(policy, /script-src 'self';/)
  t.notOk(plain.headers['set-cookie'])
  const zipped = await rig.inject({ url: '/', headers: { 'accept-encoding': 'gzip' } })
  t.equal(zipped.headers['content-encoding'], 'gzip')
  t.equal(gunzipSync(zipped.rawPayload).toString(), plain.body)
  const named = [...plain.body.matchAll(/(?:src|href)="(page\/[^"]+)"/g)].map((match) => match[1]!)
  t.equal(named.length, 2, 'a script and a style')
  for (const name of named) {
    const file = await rig.inject({ url: `/${name}`, headers: { 'accept-encoding': 'br' } })
    t.equal(file.statusCode, 200, name)
    t.match(file.headers['cache-control'], /immutable/)
    t.match(file.headers['content-type'], name.endsWith('.css') ? /^text\/css/ : /^text\/javascript/)
    t.ok(brotliDecompressSync(file.rawPayload).length > 0)
    const headers = { 'if-none-match': String(file.headers.etag) }
    const again = await rig.inject({ url: `/${name}`, headers })
    t.equal(again.statusCode, 304)
    t.equal(again.body, '')
  }
})

t.test('what is not part of the page is 404, also a path that leads out of it', async (t) => {
  const rig = await startPlugin(t, dashboard)
  for (const name of ['nothing.js', '..%2findex.ts', 'index.html.br', '%00']) {
    const answer = await rig.inject({ url: `/page/${name}` })
    t.equal(answer.statusCode, 404, name)
  }
})

t.test('a page that was not built says so', async (t) => {
  t.equal(pageFiles(undefined)?.has('index.html'), true, 'it is built here')
  const { errors } = dashboard.manifest
  t.match(errors!['page_not_built'], { status: 503, remedy: /npm run build/ })
})

t.test('what loads first stays small, with all that it imports', async (t) => {
  const files = pageFiles()!
  const loaded = new Set<string>()
  const load = (name: string): void => {
    if (loaded.has(name)) return
    loaded.add(name)
    // Matches static imports only; dynamic ones have a parenthesis before the file name.
    const text = files.get(name)!.plain.toString()
    for (const [, other] of text.matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g)) load(other!)
  }
  const html = files.get('index.html')!.plain.toString()
  for (const [, name] of html.matchAll(/page\/([^"]+)"/g)) load(name!)
  const total = [...loaded].reduce((sum, name) => sum + files.get(name)!.br.length, 0)
  t.ok(loaded.size > 2 && total <= 300_000, `${loaded.size} files, ${total} bytes compressed`)
  t.ok(loaded.size < files.size, 'other pages load later')
})
