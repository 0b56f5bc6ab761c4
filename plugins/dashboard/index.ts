import { DeclarationService, definePlugin, kernelError, Reply } from '../../kernel/index.js'
import { encodingFor, pageFiles } from './files.js'
import { moduleOf, panelDocument, panelSchema, panelsOf } from './panels.js'
import type { PageFile } from './files.js'

/**
 * The page's Content-Security-Policy: only the node's own scripts and styles, no inline code, no eval. The
 * page may connect to any address, to switch nodes or call an origin that the user enters.
 */
const POLICY = [
  "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data: blob:",
  "media-src 'self' blob: data:", "connect-src 'self' http: https: ws: wss:", "frame-src 'self'",
  "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"
].join('; ')

const HEADERS = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  vary: 'accept-encoding, origin'
}

type Headers = Readonly<Record<string, string | undefined>>

/** Cache-Control for files whose names contain a hash of their contents. */
const FOR_EVER = 'public, max-age=31536000, immutable'
const ASK_EACH_TIME = 'no-cache'

export default definePlugin({
  name: 'dashboard',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Serves the web page of the cluster at / of every node.',
  consumes: { declarations: DeclarationService },
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
      params: {
        type: 'object', required: ['name'], properties: { name: { type: 'string', maxLength: 200 } }
      },
      produces: 'text/javascript', errors: ['page_not_built', 'not_found']
    },
    panels: {
      method: 'GET', url: '/panels', authority: 'read',
      summary: 'The panels that plugins add to the web page.',
      reply: {
        type: 'object', additionalProperties: false, required: ['panels'],
        properties: { panels: { type: 'array', items: panelSchema } }
      }
    },
    panel: {
      method: 'GET', url: '/panels/:plugin/:name', authority: null,
      summary: 'The document of a panel, for a frame of the web page.',
      params: {
        type: 'object', required: ['plugin', 'name'],
        properties: { plugin: { type: 'string', maxLength: 200 }, name: { type: 'string', maxLength: 200 } }
      },
      produces: 'text/html', errors: ['not_found']
    }
  },
  firstSteps: ['open the cluster page in a browser: {url}']
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
      file: ({ params, headers }) => answer(params.name, headers, FOR_EVER),
      panels: () => ({ panels: panelsOf(ctx.deps.declarations.manifests) }),
      panel: ({ params: { plugin, name } }) => {
        const module = moduleOf(ctx.deps.declarations.manifests, plugin, name)
        if (module === undefined) throw kernelError('not_found', 'No plugin that is on brings this panel.')
        const { html, policy } = panelDocument(module)
        return new Reply(html, 200, {
          ...HEADERS, 'content-security-policy': policy, 'content-type': 'text/html; charset=utf-8',
          'cache-control': ASK_EACH_TIME
        })
      }
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
