// The repo's style (no semicolons, two spaces, 110 columns) and errors that type-aware rules find.
// npm run lint           in CI
// npm run lint -- --fix  formats
import stylistic from '@stylistic/eslint-plugin'
import tseslint from 'typescript-eslint'

const root = new URL('../..', import.meta.url).pathname

export default tseslint.config(
  {
    ignores: [
      '**/node_modules/', '**/dist/', '.tap/', 'docs/recipes/', 'test/bench/', '**/fixtures/', '**/*.d.ts'
    ]
  },
  {
    files: ['**/*.ts', '**/*.tsx', '**/*.mjs'],
    extends: [stylistic.configs.customize({ semi: false, indent: 2, quotes: 'single', commaDangle: 'never',
      braceStyle: '1tbs', arrowParens: true, quoteProps: 'as-needed' })],
    languageOptions: { parser: tseslint.parser },
    rules: {
      '@stylistic/space-before-function-paren': ['error', 'always'],
      '@stylistic/operator-linebreak': ['error', 'after', {
        overrides: { '?': 'before', ':': 'before', '|': 'ignore', '&': 'ignore' }
      }],
      '@stylistic/member-delimiter-style': 'off',
      '@stylistic/quotes': ['error', 'single', { avoidEscape: true, allowTemplateLiterals: 'always' }],
      '@stylistic/quote-props': 'off',
      '@stylistic/no-mixed-operators': 'off',
      '@stylistic/generator-star-spacing': ['error', 'both'],
      '@stylistic/yield-star-spacing': ['error', 'both'],
      '@stylistic/jsx-one-expression-per-line': 'off',
      '@stylistic/jsx-max-props-per-line': 'off',
      '@stylistic/max-statements-per-line': 'off',
      '@stylistic/multiline-ternary': 'off',
      '@stylistic/max-len': ['error', { code: 110 }]
    }
  },
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { project: './tsconfig.json', tsconfigRootDir: root } },
    rules: {
      '@typescript-eslint/no-unused-vars': ['error', { varsIgnorePattern: '^_', argsIgnorePattern: '^_',
        destructuredArrayIgnorePattern: '^_' }],
      // Handlers and interface methods are async by contract; methods passed as callbacks do not use `this`.
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/unbound-method': 'off',
      '@typescript-eslint/no-base-to-string': 'off',
      '@typescript-eslint/restrict-template-expressions': 'off',
      // Rethrown abort reasons and rejections of a database driver may have any type.
      '@typescript-eslint/only-throw-error': 'off',
      '@typescript-eslint/prefer-promise-reject-errors': 'off',
      '@typescript-eslint/no-this-alias': 'off',
      // Allows redundant types that help the reader: inferable assertions, unions with a subsumed member.
      '@typescript-eslint/no-unnecessary-type-assertion': 'off',
      '@typescript-eslint/no-redundant-type-constituents': 'off',
      '@typescript-eslint/no-unsafe-enum-comparison': 'off',
      'prefer-const': ['error', { ignoreReadBeforeAssign: true }],
      // Some packages' types do not resolve, and tests check untyped answers with assertions.
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-return': 'off'
    }
  },
  // Browser code has a separate project.
  {
    files: ['plugins/dashboard/page/**'],
    languageOptions: {
      parserOptions: { project: './plugins/dashboard/page/tsconfig.json', tsconfigRootDir: root }
    }
  },
  // tap waits for subtests by itself, so tests need not await them.
  {
    files: ['**/test/**/*.ts'],
    rules: {
      '@typescript-eslint/no-floating-promises': 'off',
      '@typescript-eslint/await-thenable': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { args: 'none', varsIgnorePattern: '^_' }]
    }
  }
)
