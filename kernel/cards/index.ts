/**
 * Reading model cards, and checking values by a schema: a surface of its own for plugins, since it brings the
 * YAML reader and the schema compiler along, which a command line that only looks at manifests must not load.
 */
export { checkCard, parseCard } from './bundle.js'
export { schemaChecker } from '../api/validate.js'
