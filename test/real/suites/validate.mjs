// Validates values with @hyperjump/json-schema, which is not the validator that svc uses.
// [{ draft, schema, values }] as JSON on stdin -> [[boolean, ...] | { error }] on stdout. Needs Node 22.
import { text } from 'node:stream/consumers'
import { registerSchema, setShouldValidateFormat, unregisterSchema, validate }
  from '@hyperjump/json-schema/draft-2020-12'
import '@hyperjump/json-schema/draft-07'
import '@hyperjump/json-schema/formats'

const DIALECTS = {
  'draft2020-12': 'https://json-schema.org/draft/2020-12/schema',
  draft7: 'http://json-schema.org/draft-07/schema'
}
setShouldValidateFormat(true)
// The validator writes what it finds wrong with a host name to stdout.
console.log = console.error

async function judge ({ draft, schema, values }, i) {
  const id = `https://suite.invalid/${i}`
  try {
    registerSchema(schema, id, DIALECTS[draft])
    const isValid = await validate(id)
    return values.map((value) => isValid(value).valid)
  } catch (error) {
    return { error: String(error) }
  } finally {
    unregisterSchema(id)
  }
}

const answers = []
for (const [i, job] of JSON.parse(await text(process.stdin)).entries()) answers.push(await judge(job, i))
process.stdout.write(JSON.stringify(answers))
