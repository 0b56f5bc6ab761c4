/** A JSON object whose fields are not known. */
export type Fields = Readonly<Record<string, unknown>>

/** The same value where it is an object, else an empty one. */
export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null ? value as Fields : {}

/** What an instance, as a state has it under its tag, says of where it is. */
export function assignmentsOf (tagged: unknown): Fields {
  return fieldsOf(fieldsOf(Object.values(fieldsOf(tagged))[0])['shardAssignments'])
}
