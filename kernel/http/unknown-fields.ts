import { isObject } from '../api/schema.js'
import { invalid, printable } from './error-body.js'
import type { RouteShorthandOptions } from 'fastify'
import type { JsonSchema } from '../api/schema.js'

/** Response header that lists the ignored fields in a body, separated by commas. */
const IGNORED_HEADER = 'x-svc-ignored'
/** Maximum number of names in the header. */
const NAMED_MOST = 16

/**
 * Removes fields that a foreign API's schema lacks and lists them in a header: its clients also send fields
 * meant for other servers and would fail if one were refused.
 */
export const ignoreUnknown = (schema: JsonSchema): Pick<RouteShorthandOptions, 'preHandler'> => ({
  preHandler: (request, reply, done) => {
    const names = unknownIn(schema, request.body)
    // `target_node` names the node that answers, so ignoring it would change the answer.
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

/** Removes fields that a schema lacks, except in list items, where clients send earlier answers back. */
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
