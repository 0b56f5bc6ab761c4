import t from 'tap'
import { routesOf } from '../kernel/plugins/registry.js'
import { kernelManifest } from '../kernel/plugins/kernel-manifest.js'
import { isAudited } from '../kernel/http/audited.js'
import { redactedParts } from '../plugins/audit/redacted.js'
import { HIDDEN } from '../kernel/net/urls.js'
import { isObject, type JsonSchema } from '../kernel/api/schema.js'
import { bundled } from '../plugins/index.js'
import type { RouteDecl } from '../kernel/index.js'

const nameOf = ({ method, url }: RouteDecl): string => `${method} ${url}`
const manifests = [kernelManifest, ...bundled.map(({ manifest }) => manifest)]
const changing = routesOf(manifests).map(({ decl }) => decl)
  .filter(({ method }) => method !== 'GET')

/** Routes other than GET that are not audited, each with its reason. */
const exceptions: Readonly<Record<string, string>> = {
  'POST /v1/devices/pair': 'a stranger\'s word; what the operator confirms is recorded',
  'POST /v1/devices/pair/:attempt': 'the same',
  'POST /v1/devices/pair/:attempt/refuse': 'the same',
  'POST /v1/devices/session': 'gives a device for ten minutes what it has already',
  'POST /cluster/touch': 'changes nothing but the number of commands',
  'POST /v1/diagnostics/node/capture': 'reads',
  'POST /mcp': 'what a tool changes it asks for at a route, in the caller\'s name',
  'DELETE /mcp': 'ends the caller\'s own session',
  'POST /ollama/api/show': 'reads',
  'POST /v1/steward/ask': 'reads'
}

t.test('every route that changes something is audited, or has a reason why not', (t) => {
  t.ok(changing.length > 40, `${changing.length} routes`)
  const named = new Set(changing.map(nameOf))
  for (const route of changing) {
    const name = nameOf(route)
    // Requests with authority `invoke` do not change the cluster; a caller can cancel only its own tasks.
    if (route.authority === 'invoke') t.notOk(isAudited(route), name)
    else t.equal(isAudited(route), exceptions[name] === undefined, name)
  }
  for (const name of Object.keys(exceptions)) t.ok(named.has(name), `${name} is a route`)
  t.end()
})

/** Field names that suggest a usable secret. */
const SECRET = /pass(word|phrase|wd)|secret|(^|_)token$|credential|api_?key|private_?key|cookie|proof/i

/** A value that matches the schema and has the canary text in every string and in an undeclared field. */
function planted (schema: JsonSchema | undefined, canary: string, depth = 0): unknown {
  if (schema === undefined || depth > 6) return canary
  const { type, items, properties, anyOf, oneOf } = schema as Record<string, unknown>
  const first = [anyOf, oneOf].find(Array.isArray) as JsonSchema[] | undefined
  if (first !== undefined) return planted(first.at(-1), canary, depth + 1)
  if (isObject(properties) || type === 'object') {
    const fields = Object.entries((properties ?? {}) as Record<string, JsonSchema>)
    const unnamed = isObject(schema['additionalProperties']) ? [] : [['notInSchema', undefined]]
    return Object.fromEntries([...fields, ...unnamed].map(([key, inner]) => [
      key, SECRET.test(key as string) || inner === undefined
        ? `secret-${canary}`
        : planted(inner as JsonSchema, canary, depth + 1)
    ]))
  }
  const kinds = Array.isArray(type) ? type : [type]
  if (kinds.includes('array')) return [planted(items as JsonSchema | undefined, canary, depth + 1)]
  if (kinds.includes('integer') || kinds.includes('number')) return 1
  return canary
}

t.test('no secret field and no undeclared field is recorded', (t) => {
  let seen = 0
  for (const route of changing.filter(isAudited)) {
    const parts = ['params', 'query', 'body'] as const
    for (const part of parts) {
      const kept = JSON.stringify(redactedParts([[part, route[part], planted(route[part], 'canary')]]))
      t.notMatch(kept, 'secret-canary', `${part} of ${nameOf(route)}`)
      if (kept.includes(HIDDEN)) seen++
    }
  }
  t.ok(seen > 20, `${seen} had something to hide`)
  t.end()
})
