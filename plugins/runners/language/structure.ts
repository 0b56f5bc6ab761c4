/** What a request demands of its answer, for engines that enforce it and for the check afterwards. Pure. */
import { fieldsOf, isObject, type Fields } from './json.js'

export interface NamedSchema { path: string, schema: unknown, strict: boolean }

/** The JSON Schema that the answer must match; null for free text. */
export function answerSchema ({ response_format: format, json_schema: alone }: Fields): NamedSchema | null {
  const { type, json_schema: described } = fieldsOf(format)
  if (type === 'json_object') return { path: 'response_format', schema: { type: 'object' }, strict: false }
  if (type === 'json_schema') {
    const { schema = {}, strict } = fieldsOf(described)
    return { path: 'response_format.json_schema.schema', schema, strict: strict === true }
  }
  return alone == null ? null : { path: 'json_schema', schema: alone, strict: false }
}

export const requiresCall = ({ tools, tool_choice: choice }: Fields): boolean =>
  Array.isArray(tools) && tools.length > 0 && (choice === 'required' || isObject(choice))
