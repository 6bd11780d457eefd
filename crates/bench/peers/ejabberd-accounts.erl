%% Accounts and rosters, written into the tables at once: through ejabberdctl each account takes a start of the Erlang machine, and each password
%% thousands of hashes. Evaluated by file:script/2 in the running server; the names in capitals that aren't set here are filled in by
%% `rookery bench peers`.
Host = <<"@DOMAIN@">>,
User = fun(Number) -> iolist_to_binary(io_lib:format("user~7..0b", [Number])) end,
Password = {scram, <<"@STORED@">>, <<"@SERVER@">>, <<"@SALT@">>, sha, @ITERATIONS@},
[ok = mnesia:dirty_write({passwd, {User(Number), Host}, Password}) || Number <- lists:seq(0, @COUNT@ - 1)],
Item = fun(Owner, Contact) ->
    {roster, {Owner, Host, {Contact, Host, <<>>}}, {Owner, Host}, {Contact, Host, <<>>}, <<>>, both, none, [], <<>>, []}
end,
Friends = [User(Number) || Number <- lists:seq(0, @FRIENDS@ - 1)],
[ok = mnesia:dirty_write(Item(Owner, Contact)) || Owner <- Friends, Contact <- Friends, Owner =/= Contact],
%% A password that doesn't fit this version of the tables is better found now than by a thousand failed logins.
true = ejabberd_auth:check_password(User(0), <<>>, Host, <<"@PASSWORD@">>),
ok = file:write_file("@READY@", <<"ready">>).
