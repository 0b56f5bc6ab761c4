import { definePlugin, kernelError, openObject, Reply } from '../../kernel/index.js'
import { encodingFor, pageFiles, type PageFile } from './files.js'

/**
 * The page's Content-Security-Policy: only the node's own scripts and styles, no inline code, no eval. The
 * page may connect to any address, to switch nodes or call an origin that the user enters.
 */
const POLICY = [
  "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data: blob:",
  "media-src 'self' blob: data:", "connect-src 'self' http: https: ws: wss:",
  "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"
].join('; ')

const HEADERS = {
  'content-security-policy': POLICY, 'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer', 'cross-origin-opener-policy': 'same-origin',
  vary: 'accept-encoding, origin'
}

type Headers = Readonly<Record<string, string | undefined>>

/** Cache-Control for files whose names contain a hash of their contents. */
const FOR_EVER = 'public, max-age=31536000, immutable'
const ASK_EACH_TIME = 'no-cache'

export default definePlugin({
  name: 'dashboard', version: '1.0.0', kernel: '^1.0.0',
  summary: 'Serves the web page of the cluster at / of every node.',
  errors: {
    page_not_built: {
      status: 503, message: 'The web page was not built.',
      remedy: 'Run `npm run build` in the checkout and restart the node.', retryable: false
    }
  },
  routes: {
    page: {
      method: 'GET', url: '/', authority: null, summary: 'The web page of the cluster.',
      query: { type: 'object' }, produces: 'text/html', errors: ['page_not_built']
    },
    file: {
      method: 'GET', url: '/page/:name', authority: null, summary: 'A script or style of the web page.',
      params: openObject({ name: { type: 'string', maxLength: 200 } }),
      produces: 'text/javascript', errors: ['page_not_built', 'not_found']
    }
  },
  firstSteps: ['open the cluster page in a browser: {url} (`svc open` prints an address that signs you in)']
}, (ctx) => {
  // Loaded on the first request, so that a node whose page is not used starts without the files.
  let read: ReturnType<typeof pageFiles> | undefined
  const answer = (name: string, headers: Headers, cache: string): Reply => {
    const files = read ??= pageFiles()
    if (files === null) throw ctx.error('page_not_built')
    const file = files.get(name)
    if (file === undefined) throw kernelError('not_found', `The page has no file ${JSON.stringify(name)}.`)
    return reply(file, headers, cache)
  }
  return {
    routes: {
      page: ({ headers }) => answer('index.html', headers, ASK_EACH_TIME),
      file: ({ params, headers }) => answer(params.name, headers, FOR_EVER)
    }
  }
})

function reply (file: PageFile, asked: Headers, cache: string): Reply {
  const headers = { ...HEADERS, 'content-type': file.type, etag: file.etag, 'cache-control': cache }
  const known = asked['if-none-match']?.split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  if (known?.includes(file.etag) === true) return new Reply(null, 304, headers)
  const encoding = encodingFor(asked['accept-encoding'])
  if (encoding === null) return new Reply(file.plain, 200, headers)
  return new Reply(file[encoding], 200, { ...headers, 'content-encoding': encoding })
}
