import {
  closedObject, DeclarationService, definePlugin, OwnApiService, type ErrorBody, type RouteDecl
} from '../../kernel/index.js'

/** JSON-RPC code for an invalid request; the field `data` contains svc's own error. */
const INVALID_REQUEST = -32600

/** Converts svc's error body to a JSON-RPC error without a request id. */
const failure = ({ error, detail }: ErrorBody): object => ({
  jsonrpc: '2.0', id: null, error: { code: INVALID_REQUEST, message: error.message, data: error }, detail
})

const session = { url: '/mcp', authority: 'read', failure } as const

const routes = {
  message: {
    ...session, method: 'POST', stream: true, streams: ['text/event-stream'],
    summary: 'A message of the Model Context Protocol (JSON-RPC), answered as JSON or server-sent events.',
    // A capability accepts 1 MiB; the rest is for the JSON-RPC message around it.
    bodyLimit: 1024 * 1024 + 64 * 1024,
    body: {
      type: ['object', 'array'], minItems: 1,
      description: 'A request or notification, or several (2025-03-26).'
    },
    reply: { type: ['object', 'array'], description: 'The responses; empty, with 202, for notifications.' },
    errors: ['overloaded', 'payload_too_large']
  },
  end: {
    ...session, method: 'DELETE', summary: 'Ends an MCP session and cancels its open requests.',
    reply: closedObject({}), errors: ['not_found']
  }
} as const satisfies Record<string, RouteDecl>

export default definePlugin({
  name: 'mcp',
  version: '1.0.0',
  kernel: '^1.0.0',
  summary: 'Offers capabilities and read-only cluster tools as an MCP server, over HTTP and stdio.',
  requires: ['capabilities'],
  consumes: { api: OwnApiService, declarations: DeclarationService },
  routes,
  verbs: {
    mcp: {
      heading: 'Use models',
      summary: 'run an MCP server on stdin and stdout, for Claude Desktop, Cursor and others',
      examples: ['svc mcp', 'svc mcp --url http://10.0.0.5:52415 --token svc_…'],
      load: () => import('./cli/mcp.js')
    }
  }
}, ({ deps: { api, declarations }, clock, log, node }) => {
  // Created at the first request, because loading the MCP library would slow down every start.
  let made: Promise<ReturnType<typeof import('./http.js')['createEndpoint']>> | undefined
  const endpoint = (): NonNullable<typeof made> => made ??= import('./http.js').then(({ createEndpoint }) =>
    createEndpoint({ api, declarations, clock, log, version: node.version }))
  return {
    routes: {
      message: async (request) => await (await endpoint()).message(request),
      end: async (request) => (await endpoint()).end(request)
    }
  }
})
