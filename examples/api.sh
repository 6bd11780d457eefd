#!/usr/bin/env bash
# The HTTP API from a shell: creates an account if it doesn't exist, and prints the accounts of its
# domain.
#
#     TOKEN=$(rookery token add example --scope users:read,users:write)
#     TOKEN=… examples/api.sh localhost alice
#
# API names the server, by default http://localhost:5280.
set -euo pipefail
domain=${1:?the domain} name=${2:?the name of the account}
api="${API:-http://localhost:5280}/api/v1"
call() { curl --silent --show-error --fail-with-body -H "Authorization: Bearer $TOKEN" "$@"; }

if ! call --output /dev/null "$api/users/$name@$domain" 2>/dev/null; then
    password=$(head -c 12 /dev/urandom | base64)
    call --output /dev/null -H 'Content-Type: application/json' \
        -d "{\"name\": \"$name\", \"password\": \"$password\"}" "$api/domains/$domain/users"
    echo "made $name@$domain with the password $password"
fi
call "$api/domains/$domain/users"
echo
