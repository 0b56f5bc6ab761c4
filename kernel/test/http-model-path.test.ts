import t from 'tap'
import { modelPaths } from '../http/model-path.js'
import type { RouteDecl } from '../api/plugin.js'

const route = (method: RouteDecl['method'], url: string): RouteDecl =>
  ({ method, url, summary: '', authority: null })

const rewrite = modelPaths([
  route('DELETE', '/store/models/:model_id'),
  route('DELETE', '/store/models/:model_id/download'),
  route('GET', '/store/models/:model_id/manifest'),
  route('GET', '/store/models/:model_id/files/*'),
  route('GET', '/state'), { ...route('GET', '/v1/models'), also: ['/models', '/taken'] },
  route('POST', '/taken'),
  { ...route('POST', '/b'), also: ['/both'] }, { ...route('GET', '/a'), also: ['/both'] }
])

t.test('a model id in a path may be written with its slash', (t) => {
  const cases: [method: string, url: string, rewritten: string][] = [
    ['GET', '/store/models/acme/x/manifest', '/store/models/acme%2Fx/manifest'],
    ['GET', '/store/models/acme%2Fx/manifest', '/store/models/acme%2Fx/manifest'],
    ['HEAD', '/store/models/acme/x/manifest', '/store/models/acme%2Fx/manifest'],
    ['GET', '/store/models/acme/x/manifest?from=self', '/store/models/acme%2Fx/manifest?from=self'],
    ['GET', '/store/models/acme/x/files/a/b.onnx', '/store/models/acme%2Fx/files/a/b.onnx'],
    ['GET', '/store/models/acme/x/files/files/b', '/store/models/acme%2Fx/files/files/b'],
    ['DELETE', '/store/models/acme/x', '/store/models/acme%2Fx'],
    ['DELETE', '/store/models/acme/x/download', '/store/models/acme%2Fx/download'],
    ['GET', '/store/models/../../x/manifest', '/store/models/..%2F..%2Fx/manifest'],
    ['GET', '/store/models/..%2f/x/manifest', '/store/models/..%2f%2Fx/manifest'],
    ['POST', '/store/models/acme/x/manifest', '/store/models/acme/x/manifest'],
    ['GET', '/state?a=/store/models/a/b/manifest', '/state?a=/store/models/a/b/manifest'],
    ['GET', '/store/models//manifest', '/store/models//manifest'],
    ['GET', '/models?limit=1', '/v1/models?limit=1'],
    ['GET', '/models/', '/models/'], ['HEAD', '/models', '/v1/models'],
    // Another method gets the route's 405, unless a route has that path itself.
    ['PUT', '/models', '/v1/models'], ['POST', '/taken', '/taken'], ['GET', '/taken', '/v1/models'],
    ['POST', '/both', '/b'], ['GET', '/both', '/a']
  ]
  for (const [method, url, rewritten] of cases) t.equal(rewrite(method, url), rewritten, `${method} ${url}`)
  t.end()
})
