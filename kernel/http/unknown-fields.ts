import { isObject } from '../api/schema.js'
import { invalid, printable } from './error-body.js'
import type { RouteShorthandOptions } from 'fastify'
import type { JsonSchema } from '../api/schema.js'

/** Names the fields of a body that had no effect, separated by commas. */
const IGNORED_HEADER = 'x-svc-ignored'
/** Most names in the header. */
const NAMED_MOST = 16

/**
 * Removes unknown fields of a foreign API's body and names them in a header: its clients also send fields for
 * other servers, and would fail if one were refused.
 */
export const ignoreUnknown = (schema: JsonSchema): Pick<RouteShorthandOptions, 'preHandler'> => ({
  preHandler: (request, reply, done) => {
    const names = unknownIn(schema, request.body)
    // It names the node that answers, so ignoring it would change the answer.
    if (names.includes('target_node')) {
      done(invalid([{ path: 'target_node', message: 'only works with /v1/capabilities/call and stream' }],
        'body'))
      return
    }
    const named = names.slice(0, NAMED_MOST).map(printable)
    if (named.length > 0) void reply.header(IGNORED_HEADER, named.join(', '))
    done()
  }
})

/** Removes fields that a schema does not name. Items of lists stay: clients send answers back unchanged. */
function unknownIn ({ properties }: JsonSchema, value: unknown, path = ''): string[] {
  if (!isObject(properties) || !isObject(value)) return []
  return Object.keys(value).flatMap((key) => {
    if (Object.hasOwn(properties, key)) {
      return unknownIn(properties[key] as JsonSchema, value[key], `${path}${key}.`)
    }
    Reflect.deleteProperty(value, key)
    return [path + key]
  })
}
