import { DeclarationService, definePlugin, OwnApiService } from '../../kernel/index.js'
import { routes } from './routes.js'

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
